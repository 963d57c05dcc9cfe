"""The environment of commands: only variables that SANDBOX_ENV_ALLOW names come from the host."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.docker.engine import connect
from tests.support.sandboxes import IMAGE

pytestmark = pytest.mark.docker

CANARIES = {
    "OPENAI_API_KEY": "canary-openai",
    "AWS_SECRET_ACCESS_KEY": "canary-aws",
    "DATABASE_URL": "postgres://canary-database",
    "HTTP_PROXY": "http://canary-proxy",
    "SSH_AUTH_SOCK": "/canary-ssh",
    "PYTHONPATH": "/canary-path",
    "LD_LIBRARY_PATH": "/canary-library",
}


@pytest.fixture(scope="module", autouse=True)
def secrets() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CANARIES.items():
            patch.setenv(name, value)
        yield


def inside(backend: DockerExecutionBackend, command: str) -> str:
    answer = backend.execute(command)
    assert answer.exit_code == 0, answer.output
    return answer.output


def test_no_variable_of_the_host_is_inside(backend: DockerExecutionBackend) -> None:
    everything = inside(backend, "env -0 | tr '\\0' '\\n'; cat /proc/[0-9]*/environ 2>/dev/null; set")
    assert "canary" not in everything
    assert "canary" not in str(connect().api.inspect_container(backend.sandbox.container_name))
    for name in CANARIES:
        assert not re.search(rf"^{name}=", everything, re.MULTILINE)


def test_only_variables_that_a_shell_needs(backend: DockerExecutionBackend) -> None:
    found = {line.partition("=")[0] for line in inside(backend, "env").splitlines()}
    assert found <= {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "LANG", "PWD", "SHLVL", "_", "OLDPWD"),
        *("MPLBACKEND", "MPLCONFIGDIR", "TMPDIR", "TZ", "LC_CTYPE"),
        *("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"),
        # Variables of the official Python images.
        *("GPG_KEY", "PYTHON_VERSION", "PYTHON_SHA256", "PYTHON_PIP_VERSION", "PYTHON_SETUPTOOLS_VERSION"),
    }


def test_patterns_pass_variables_but_never_replace_the_sandboxs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "TZ": "Europe/Berlin",
        "MY_ONE": "1",
        "MY_TWO": "zwei\nlinien = ü",
        "YOUR_ONE": "x",
        "PATH": f"/elsewhere:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "USER": "somebody",
    }.items():
        monkeypatch.setenv(name, value)
    allow = ["TZ", "MY_*", "PATH", "HOME", "USER"]
    with DockerExecutionBackend(tmp_path / "w", env_allow=allow, name="env", image=IMAGE) as backend:
        assert inside(backend, 'echo $TZ $MY_ONE ${YOUR_ONE-unset}; printf %s "$MY_TWO"') == (
            "Europe/Berlin 1 unset\nzwei\nlinien = ü"
        )
        printed = inside(backend, "echo $PATH $HOME $USER")
        assert "/elsewhere" not in printed
        assert str(tmp_path) not in printed
        assert "somebody" not in printed


def test_variables_of_the_supervisor_cannot_be_passed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDBOX_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("SANDBOX_TRUST", "no certificate")
    with DockerExecutionBackend(tmp_path, env_allow=["SANDBOX_*"], name="env", image=IMAGE) as backend:
        assert inside(backend, "echo ${SANDBOX_PROXY-unset} ${SSL_CERT_FILE-unset}") == "unset unset\n"
