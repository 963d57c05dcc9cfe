"""The image: its content, its behaviour for any uid, and when it is built again."""

from __future__ import annotations

import io
import json
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest
import trustme

from agent.commands.machine.setup_command import build_image, ensure_engine
from libs.backends.docker import DockerExecutionBackend
from libs.backends.docker.build_context import context_tar, host_certificates
from libs.backends.docker.sandbox_image import _build, ensure_image, image_state, require_image
from libs.exec_tool import code_runner
from libs.sandbox.docker.engine import connect
from libs.sandbox.errors import ImageMissing
from libs.sandbox.image_contents import guest_tree

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1200)]

IMAGE = os.environ.get("SANDBOX_IMAGE", "code-execution-agent")
OTHER = f"code-execution-agent-test-image-{os.getpid()}"


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    ensure_engine(print)
    build_image(IMAGE, print)
    with closing(connect()) as client:
        yield client
        if client.images.list(name=OTHER):
            client.images.remove(OTHER)


@dataclass
class Done:
    stdout: str
    stderr: str
    exit_code: int


Run = Callable[..., Done]


@pytest.fixture
def run(client: docker.DockerClient) -> Run:
    """Run a bash command as in a sandbox: any uid, read-only, small tmpfs, no network."""

    def run(command: str, *, uid: int = 1234, image: str = IMAGE, **environment: str) -> Done:
        container = client.containers.run(
            image,
            ["-c", command],
            entrypoint="bash",
            user=f"{uid}:{uid}",
            read_only=True,
            tmpfs=dict.fromkeys(("/tmp", "/run", "/workspace"), f"uid={uid}"),
            network_mode="none",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            environment=environment,
            detach=True,
        )
        try:
            code = container.wait()["StatusCode"]
            stdout, stderr = (container.logs(stdout=o, stderr=not o).decode() for o in (True, False))
        finally:
            container.remove(force=True)
        return Done(stdout, stderr, code)

    return run


def test_second_build_is_skipped(client: docker.DockerClient) -> None:
    said: list[str] = []
    info = ensure_image(client, IMAGE, progress=said.append)
    assert not info.built
    assert info.seconds < 2
    assert said == []
    assert image_state(client, IMAGE) == "ready"


def test_hint_builds_the_image_of_the_given_name(tmp_path: Path) -> None:
    hint = "if the settings name another image, with `SANDBOX_IMAGE=code-execution-agent-of-nobody"
    with DockerExecutionBackend(tmp_path, image="code-execution-agent-of-nobody") as computer:
        assert hint in computer.execute("true").output
    with code_runner("code-execution-agent-of-nobody") as run:
        error = run("print(1)").error
    assert error and error.message == "The sandbox image 'code-execution-agent-of-nobody' is missing."
    assert hint in error.hint


@pytest.mark.thorough
def test_image_of_other_sources_is_stale_and_built_again(client: docker.DockerClient) -> None:
    assert image_state(client, "code-execution-agent-of-nobody") == "missing"
    dockerfile = io.BytesIO(f"FROM {IMAGE}\nLABEL code-agent.content=old\n".encode())
    client.images.build(fileobj=dockerfile, tag=OTHER, rm=True)
    assert image_state(client, OTHER) == "stale"
    with pytest.raises(ImageMissing, match="other source files") as refused:
        require_image(client, OTHER)
    assert "start this program again" in str(refused.value.hint)
    assert ensure_image(client, OTHER, progress=print).built
    assert image_state(client, OTHER) == "ready"


def test_image_starts_the_supervisor(client: docker.DockerClient, run: Run) -> None:
    config = client.images.get(IMAGE).attrs["Config"]
    assert config["Entrypoint"] == ["python3", "-I", "-S", "/usr/lib/code-agent/libs/sandbox/guest/start.py"]
    assert config["User"] == "1000:1000"
    assert len(config["Labels"]["code-agent.content"]) == 64
    assert config["Labels"]["code-agent.base"]
    done = run("cd /usr/lib/code-agent && find . -type f")
    assert done.stderr == ""
    names = [Path(line).name.partition(".") for line in done.stdout.split()]
    modules = {Path(path).stem for path in guest_tree()}
    assert {name for name, _, kind in names if kind == "py"} == modules
    assert {name for name, _, kind in names if kind != "py"} == modules  # compiled in the build


@pytest.mark.thorough
def test_plot_prints_nothing(run: Run) -> None:
    """The image contains the font list."""
    plot = (
        "import seaborn, matplotlib.pyplot as p; p.plot([1, 2]); p.title('ä'); p.savefig('/workspace/a.png')"
    )
    done = run(
        f'cp -r /etc/skel/.matplotlib /tmp/ && ls /tmp/.matplotlib && python -c "{plot}"'
        " && file -b /workspace/a.png"
    )
    assert done.stderr == ""
    fonts, picture = done.stdout.splitlines()
    assert fonts.startswith("fontlist-")
    assert picture.startswith("PNG image data")


@pytest.mark.thorough
def test_packages_and_tools_are_installed(run: Run) -> None:
    modules = "pandas numpy matplotlib seaborn scipy requests pypdf reportlab yaml openpyxl pdfplumber"
    modules += " trafilatura feedparser markdown_it"
    tools = "rg git curl jq file ps bash"
    done = run(
        f'python3 -c "import {modules.replace(" ", ", ")}"'
        f" && for tool in {tools}; do $tool --version > /dev/null && echo $tool; done"
    )
    assert (done.stdout.split(), done.stderr, done.exit_code) == (tools.split(), "", 0)


def test_certificates_of_this_host_are_trusted(run: Run) -> None:
    inside = run("cat /etc/ssl/certs/ca-certificates.crt").stdout
    assert all(pem.decode().strip() in inside for pem in host_certificates().values())
    assert inside.count("BEGIN CERTIFICATE") == len(set(inside.split("-----BEGIN CERTIFICATE-----")[1:]))


def test_settings_of_the_host_pip_are_not_inside(client: docker.DockerClient, run: Run) -> None:
    names = r"find / -xdev \( -name pip.conf -o -name .netrc -o -path '/packages/*' \) 2>/dev/null"
    assert run(names).stdout == ""
    history = json.dumps(client.images.get(IMAGE).history())
    assert "pip.conf" not in history
    assert "://" not in history


@pytest.mark.thorough
def test_intercepted_tls_and_proxies_leave_only_trust_behind(
    client: docker.DockerClient, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()  # that no public bundle knows
    server_pem = authority.issue_cert("localhost").private_key_and_cert_chain_pem.bytes().decode()
    bundle = tmp_path / "company.pem"
    authority.cert_pem.write_to_path(str(bundle))
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.setenv("http_proxy", "http://someone:hunter2@127.0.0.1:9")
    monkeypatch.setenv("PIP_INDEX_URL", "http://someone:hunter2@127.0.0.1:9/simple")
    assert ensure_image(client, OTHER, progress=print).built
    assert "hunter2" not in json.dumps([client.images.get(OTHER).history(), client.images.get(OTHER).attrs])

    server = """
        echo "$PEM" > /tmp/server.pem
        cat > /tmp/server.py <<'PY'
import http.server, ssl
server = http.server.HTTPServer(("127.0.0.1", 8443), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tmp/server.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
PY
        python /tmp/server.py 2>/dev/null &
        until (exec 3<> /dev/tcp/127.0.0.1/8443) 2>/dev/null; do sleep 0.05; done
        url=https://localhost:8443/
        curl -sS -o /dev/null -w '%{http_code}\\n' $url
        python -c "import requests; print(requests.get('$url').status_code)"
        python -c "import urllib.request; print(urllib.request.urlopen('$url').status)"
        git ls-remote $url 2>&1 | grep -ci certificate
        pip download --no-deps --index-url $url nothing 2>&1 | grep -ci certificate
    """
    assert run(server, image=OTHER, PEM=server_pem).stdout.split() == ["200", "200", "200", "0", "0"]
    refused = run(server, PEM=server_pem).stdout.split()
    assert "200" not in refused


@pytest.mark.thorough
def test_broken_step_of_the_build_is_named(client: docker.DockerClient, tmp_path: Path) -> None:
    files = {"Dockerfile": f"FROM {IMAGE}\nRUN echo look here && exit 3\n".encode()}
    with context_tar(files, {}, tmp_path) as context, pytest.raises(ImageMissing) as failure:
        _build(client, OTHER, IMAGE, {}, context=context, progress=lambda _: None)
    assert "look here" in str(failure.value)
    assert "code: 3" in str(failure.value)
    assert "code-agent setup" in failure.value.hint


def test_an_image_without_a_browser_says_what_to_set(backend: DockerExecutionBackend) -> None:
    for call in ("open('http://localhost/')", "text()"):
        done = backend.execute(f"python -c {shlex.quote(f'from skills import browser; browser.{call}')}")
        assert done.exit_code == 1
        assert "this sandbox has no browser: ask the person to set SANDBOX_BROWSER=1" in done.output
        assert "code-agent setup" in done.output
    assert backend.execute("python -c 'from skills import browser; browser.close()'").exit_code == 0
