"""The image as it is: what is in it, how it behaves as any uid, and when it is built again."""

from __future__ import annotations

import datetime
import io
import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from agent.doctor import doctor
from agent.engine_setup import build_image, ensure_engine
from libs.backends.docker.context import context_tar, host_certificates
from libs.backends.docker.image import _build, ensure_image, image_state, require_image
from libs.sandbox.engine import connect
from libs.sandbox.errors import ImageMissing
from libs.sandbox.guest import GUEST_MODULES

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1200)]

IMAGE = "code-execution-agent"
OTHER = "code-execution-agent-test-image"


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
    """Run a bash command the way a sandbox would: any uid, read-only, small tmpfs, no network."""

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


def test_doctor_finds_everything_in_order(client: docker.DockerClient, tmp_path: Path) -> None:
    checks = doctor(workspace=tmp_path, image=IMAGE)
    assert {check.name for check in checks} >= {"Docker Engine", "image", "limits", "disk", "workspace"}
    assert [check for check in checks if not check.ok] == []


def test_image_that_is_not_there(client: docker.DockerClient) -> None:
    assert image_state(client, "code-execution-agent-of-nobody") == "missing"


def test_image_of_other_sources_is_stale_and_built_again(client: docker.DockerClient) -> None:
    dockerfile = io.BytesIO(f"FROM {IMAGE}\nLABEL code-agent.content=old\n".encode())
    client.images.build(fileobj=dockerfile, tag=OTHER)
    assert image_state(client, OTHER) == "stale"
    with pytest.raises(ImageMissing, match="other sources") as refused:
        require_image(client, OTHER)
    assert "start this program again" in str(refused.value.hint)
    assert ensure_image(client, OTHER, progress=print).built
    assert image_state(client, OTHER) == "ready"


def test_labels_say_what_it_was_made_of(client: docker.DockerClient) -> None:
    labels = client.images.get(IMAGE).labels
    assert len(labels["code-agent.content"]) == 64
    assert labels["code-agent.base"]


def test_supervisor_is_what_starts(client: docker.DockerClient, run: Run) -> None:
    config = client.images.get(IMAGE).attrs["Config"]
    assert config["Entrypoint"] == ["python3", "-I", "-S", "/usr/lib/code-agent/main.pyc"]
    assert config["User"] == "1000:1000"
    done = run("cd /usr/lib/code-agent && find . -type f | sort")
    assert done.stderr == ""
    sources = [f"./libs/sandbox/{name}.py" for name in GUEST_MODULES]
    assert done.stdout.split() == sorted([*sources, "./main.pyc"])


@pytest.mark.parametrize("uid", [1000, 1234])
def test_plot_prints_nothing(run: Run, uid: int) -> None:
    plot = (
        "import seaborn, matplotlib.pyplot as p; p.plot([1, 2]); p.title('ä'); p.savefig('/workspace/a.png')"
    )
    done = run(f'python -c "{plot}" && file -b /workspace/a.png', uid=uid)
    assert done.stderr == ""
    assert done.stdout.startswith("PNG image data")


def test_font_list_waits_in_skel(run: Run) -> None:
    seconds = "import time; t = time.monotonic(); import matplotlib.font_manager; print(time.monotonic() - t)"
    done = run(f'cp -r /etc/skel/.matplotlib /tmp/ && ls /tmp/.matplotlib && python -c "{seconds}"')
    assert done.stdout.startswith("fontlist-")
    assert done.exit_code == 0


def test_every_package_is_importable(run: Run) -> None:
    modules = "pandas numpy matplotlib seaborn scipy requests pypdf reportlab yaml openpyxl pdfplumber"
    modules += " trafilatura feedparser"
    done = run(f'python3 -c "import {modules.replace(" ", ", ")}, markdown_it"')
    assert (done.exit_code, done.stderr) == (0, "")


def test_tools_are_there(run: Run) -> None:
    tools = "rg git curl jq file ps bash"
    done = run(f"for tool in {tools}; do $tool --version > /dev/null && echo $tool; done")
    assert (done.stdout.split(), done.stderr) == (tools.split(), "")


def test_one_python_whatever_its_name(run: Run) -> None:
    which = "import sys; print(sys.prefix, sys.version_info[:2])"
    scripts = f"for p in python python3 '/usr/bin/env python3'; do $p -c '{which}'; done; pip --version"
    *pythons, pip = run(scripts).stdout.splitlines()
    assert len(set(pythons)) == 1
    assert "(3, 11)" in pythons[0]
    assert "(python 3.11)" in pip


def test_pip_is_not_refused(run: Run) -> None:
    done = run("pip install --no-index pandas")
    assert done.exit_code == 0, done.stderr
    assert "already satisfied" in done.stdout


def test_any_uid_can_have_a_name(run: Run) -> None:
    names = "cp /etc/passwd.image /run/passwd; cp /etc/group.image /run/group"
    done = run(f"{names}; echo me:x:1234:1234::/tmp:/bin/bash >> /run/passwd; whoami; id -un 1000")
    assert (done.stdout, done.stderr) == ("me\nagent\n", "")


def test_folders_of_the_agent(run: Run) -> None:
    assert run("readlink /data /scripts /results; ls -d /skills*").stdout.split() == [
        *("/workspace/data", "/workspace/scripts", "/workspace/results"),
        *("/skills", "/skills.d"),
    ]
    assert run("mkdir /workspace/data && touch /data/x && ls /workspace/data").stdout == "x\n"


def test_no_program_changes_its_user(run: Run) -> None:
    assert run("find / -xdev -type f -perm /6000 2>/dev/null").stdout == ""


def test_certificates_of_this_host_are_trusted(run: Run) -> None:
    inside = run("cat /etc/ssl/certs/ca-certificates.crt").stdout
    assert all(pem.decode().strip() in inside for pem in host_certificates().values())
    assert inside.count("BEGIN CERTIFICATE") == len(set(inside.split("-----BEGIN CERTIFICATE-----")[1:]))


def test_nothing_of_the_host_pip_is_inside(client: docker.DockerClient, run: Run) -> None:
    names = r"find / -xdev \( -name pip.conf -o -name .netrc -o -path '/packages/*' \) 2>/dev/null"
    assert run(names).stdout == ""
    history = json.dumps(client.images.get(IMAGE).history())
    assert "pip.conf" not in history
    assert "://" not in history


@dataclass
class Company:
    """A certificate authority no public bundle knows, and a server's certificate for localhost."""

    authority: str
    server: str


@pytest.fixture(scope="module")
def company() -> Company:
    def pem(certificate: x509.Certificate) -> str:
        return certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue(name: str, key: ec.EllipticCurvePrivateKey, *, ca: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Company Root")])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(1)).not_valid_after(
            now + datetime.timedelta(9)
        )
        builder = builder.add_extension(x509.BasicConstraints(ca, None), critical=True)
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False
        )
        return builder.sign(root, hashes.SHA256())

    root, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Company(
        pem(issue("Company Root", root, ca=True)), private.decode() + pem(issue("localhost", key, ca=False))
    )


def test_intercepted_tls_and_proxies_leave_only_trust_behind(
    client: docker.DockerClient, run: Run, company: Company, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "company.pem"
    bundle.write_text(company.authority)
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
    assert run(server, image=OTHER, PEM=company.server).stdout.split() == ["200", "200", "200", "0", "0"]
    refused = run(server, PEM=company.server).stdout.split()
    assert "200" not in refused


def test_broken_step_of_the_build_is_named(client: docker.DockerClient, tmp_path: Path) -> None:
    files = {"Dockerfile": f"FROM {IMAGE}\nRUN echo look here && exit 3\n".encode()}
    with context_tar(files, {}, tmp_path) as context, pytest.raises(ImageMissing) as failure:
        _build(client, OTHER, IMAGE, {}, context=context, progress=lambda _: None)
    assert "look here" in str(failure.value)
    assert "code: 3" in str(failure.value)
    assert "code-agent setup" in failure.value.hint


def test_base_that_cannot_be_had_is_named(client: docker.DockerClient) -> None:
    with pytest.raises(ImageMissing, match=r"localhost:1/nothing:at-all could not be pulled") as failure:
        ensure_image(client, OTHER, progress=lambda _: None, base="localhost:1/nothing:at-all")
    assert "docker pull localhost:1/nothing:at-all" in failure.value.hint


def test_set_up_leaves_a_running_engine_alone(client: docker.DockerClient) -> None:
    def pids() -> str:
        return subprocess.run(["pgrep", "-x", "dockerd"], capture_output=True, text=True).stdout

    before, said = pids(), []
    ensure_engine(said.append)
    assert pids() == before
    assert said == []
