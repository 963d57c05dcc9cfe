"""Check the rules of CONTRIBUTING.md that a program can check."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.cluster.ray_start import NOTICE_DEAD_NODES, OUTLIVE_THE_HEAD

ROOT = Path(__file__).parents[3]

TOP_LEVEL = {
    *(".ci", ".env.example", ".gitignore", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md"),
    *("agent", "docs", "langgraph.json", "libs", "pyproject.toml", "requirements.lock", "skills", "tests"),
    "workspace",
}

# Files that may read the environment, each with the reason why the value is not a setting.
READS_ENVIRONMENT = {
    "agent/settings/application_settings.py": "reads all settings",
    "agent/http_app.py": "LANGGRAPH_API_URL is the address that `langgraph dev` gives its server",
    "libs/sandbox/cluster/actor/link.py": "RAY_USE_TLS and the files of the certificates belong to Ray",
    "libs/sandbox/cluster/ray_connection.py": "Ray reads its variables when it is imported",
    "libs/gateway/packages/host_index_settings.py": "REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE belong to pip",
    "libs/models/weight_packages.py": "passes its own on to pip",
    "libs/sandbox/docker/engine.py": "DOCKER_CONTEXT belongs to Docker",
    "libs/sandbox/docker/engine_errors.py": "names DOCKER_HOST and DOCKER_CONTEXT, which belong to Docker",
    "libs/sandbox/guest/interpreter/python_worker.py": "runs in the container, and passes its own on",
    "libs/sandbox/guest/interpreter/block_server.py": "runs in the container, and adds folders to PATH",
    "libs/sandbox/guest/workers/shells.py": "runs in the container, and passes its own on",
    "libs/sandbox/guest/workers/skill_commands.py": "runs in the container, whose environment it is given",
    "libs/servers/inside/channel_module.py": "runs in the container, and finds the port of the proxy",
    "libs/servers/inside/stream_starter.py": "runs in the container, and finds the port of the proxy",
    "libs/sandbox/guest/boot.py": "runs in the container, whose environment it is given",
    "libs/backends/docker/docker_backend.py": "passes on what SANDBOX_ENV_ALLOW names",
}


def _tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def _sources(*folders: str) -> dict[str, str]:
    files = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in files}


def test_top_level_is_fixed() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in _tracked()} <= TOP_LEVEL


def test_only_listed_files_read_the_environment() -> None:
    readers = {
        path for path, text in _sources("agent", "libs").items() if re.search(r"os\.(environ|getenv)", text)
    }
    assert readers <= READS_ENVIRONMENT.keys()
    assert "agent/settings/application_settings.py" in readers


def test_code_blocks_use_no_tool_calls() -> None:
    words = re.compile(r"bind_tools|\btools\s*=|tool_calls|function_call")
    assert [path for path, text in _sources("libs/code_blocks").items() if words.search(text)] == []


LOCKS = {
    "requirements.lock": "dev",
    "libs/models/requirements.lock": "local",
    "libs/sandbox/cluster/requirements.lock": "cluster",
}
"""Lock file -> its extra."""


@pytest.mark.parametrize(("file", "extra"), LOCKS.items())
def test_lock_file_pins_every_dependency_with_a_hash_and_names_no_index(file: str, extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    direct = [*project["optional-dependencies"][extra], *(project["dependencies"] if extra == "dev" else [])]
    lock = (ROOT / file).read_text()
    assert re.findall(r"^(?!#).*(?:://|--index|--find-links).*", lock, re.M) == []
    pinned = _pins(lock)
    assert len(pinned) == len(re.findall(r"^\S+==", lock, re.M)) > len(direct)
    wanted = [Requirement(line) for line in direct]
    assert [
        str(r) for r in wanted if not r.specifier.contains(pinned.get(canonicalize_name(r.name), "0"), True)
    ] == []
    always = _pins((ROOT / "requirements.lock").read_text())
    assert {name: version for name, version in pinned.items() if always.get(name, version) != version} == {}


def _pins(lock: str) -> dict[str, str]:
    """Return name and version of each package that is pinned with a hash."""
    pins = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==(\S+)[^\n]*\\\n    --hash=sha256:", lock, re.M)
    return {canonicalize_name(name): version for name, version in pins}


def test_page_names_the_variables_with_which_the_tests_start_ray() -> None:
    page = (ROOT / "docs" / "cluster.md").read_text()
    assert [
        f"{name}={value}"
        for name, value in (NOTICE_DEAD_NODES | OUTLIVE_THE_HEAD).items()
        if f"{name}={value}" not in page
    ] == []


def test_links_of_the_pages_lead_to_files() -> None:
    links = {
        (page, target)
        for page in _tracked("README.md", "CONTRIBUTING.md", "docs/*.md")
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
        if "://" not in target
    }
    assert len(links) > 10
    assert [(page, target) for page, target in links if not (page.parent / target).exists()] == []


def test_no_file_names_a_package_registry() -> None:
    hosts = ["pypi org", "pythonhosted org", "npmjs org", "deb debian org", "security debian org"]
    name = re.compile("|".join(host.replace(" ", r"\.") for host in hosts).encode())
    assert [path for path in _tracked() if name.search(path.read_bytes())] == []


def test_sandbox_packages_are_the_same_in_both_bases() -> None:
    """The base that is made without a registry has every program that the Dockerfile installs by apt."""
    from libs.backends.docker.base_image import _PACKAGES

    dockerfile = (ROOT / "libs/backends/docker/Dockerfile").read_text()
    asked = re.search(r"--no-install-recommends \\\n\s*(.*?) > /dev/null", dockerfile)
    assert asked is not None
    assert set(asked[1].split()) <= set(_PACKAGES.split())
