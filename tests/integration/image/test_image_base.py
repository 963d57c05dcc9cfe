"""The base of the image: from a registry, or a Debian that is made here if no registry answers."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from io import BytesIO
from pathlib import Path

import docker
import docker.errors
import pytest

from agent.commands.machine.setup_command import ensure_engine
from libs.backends.docker import DockerExecutionBackend
from libs.backends.docker import base_image as base
from libs.backends.docker.sandbox_image import ensure_image, image_state
from libs.sandbox.docker.engine import connect, endpoint
from libs.sandbox.errors import ImageMissing
from tests.servers.served import free_port
from tests.support.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.thorough, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
OWN = f"code-execution-agent-test-base-{os.getpid()}"
IMAGE = f"code-execution-agent-test-registry-{os.getpid()}"
RECIPE = f"of-these-tests-{os.getpid()}"  # a label of the base, so of all that is built on it
NOWHERE = "localhost:1/python:3.11-slim"  # nothing listens there: no registry answers

# What tells `python:3.11-slim` from our own Debian: a Python of its own below /usr/local with its packages in
# site-packages, Debian's nowhere, and none of the programs that the Dockerfile asks apt for.
# The link is for `site`: it is frozen into Debian's Python and looks in dist-packages.
PYTHON_SLIM = f"""
FROM {OWN}
RUN cp -r /usr/lib/python3.11 /usr/local/lib/ \
    && cp /usr/bin/python3.11 /usr/bin/pip /usr/bin/pip3 /usr/local/bin/ \
    && ln -s python3.11 /usr/local/bin/python3 && ln -s python3 /usr/local/bin/python \
    && sed -i 's|#!/usr/bin/python3|#!/usr/local/bin/python3|' /usr/local/bin/pip* \
    && cd /usr/local/lib/python3.11 \
    && rm -rf EXTERNALLY-MANAGED sitecustomize.py dist-packages \
    && sed -i "s/= 'posix_local'$/= 'posix_prefix'/" sysconfig.py \
    && mkdir site-packages && ln -s site-packages dist-packages \
    && cp -r /usr/lib/python3/dist-packages/pip* site-packages/ \
    && apt-get purge -y -qq --auto-remove python-is-python3 python3 python3-minimal python3.11 \
        python3.11-minimal libpython3-stdlib libpython3.11-stdlib libpython3.11-minimal \
        ripgrep git git-man perl curl libcurl4 jq libjq1 file libmagic1 procps libproc2-0 libnss-myhostname \
        > /dev/null \
    && rm -rf /usr/lib/python3*
ENV LANG=C.UTF-8
CMD ["python3"]
"""


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    ensure_engine(print)
    with closing(connect()) as client:
        yield client
        _remove_all(client)


def _remove_all(client: docker.DockerClient) -> None:
    # Newest first: what stands on the base, stages of builds included, goes before it.
    for image in client.images.list(filters={"label": f"{base._LABEL}={RECIPE}"}):
        try:
            client.images.remove(str(image.id), force=True)
        except docker.errors.ImageNotFound:  # it went with one that stood on it
            continue


@pytest.fixture(scope="module")
def packages() -> None:
    """Install the programs of Debian that these tests start. Needs root."""
    if not all(map(shutil.which, ("docker-registry", "debootstrap"))):
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends"]
        subprocess.run([*install, "docker-registry", "debootstrap"], check=True)


@pytest.fixture(scope="module")
def no_registry() -> Iterator[None]:
    """The default base is where no registry answers, and our own Debian goes by a name of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "DEFAULT_BASE", NOWHERE)
        patch.setattr(base, "OWN_BASE", OWN)
        patch.setattr(base, "_RECIPE", RECIPE)
        yield


@pytest.fixture(scope="module")
def debian(client: docker.DockerClient, packages: None, no_registry: None) -> list[str]:
    """Make our own Debian, which takes most of a minute. Return the lines of progress."""
    said: list[str] = []
    assert base.find_base(client, NOWHERE, said.append) == OWN
    return said


def _stored(client: docker.DockerClient, name: str) -> set[str]:
    """Paths in the one layer of an image, without what the Engine puts over it in a container."""
    with tempfile.TemporaryFile() as file:
        file.writelines(client.images.get(name).save())
        file.seek(0)
        with tarfile.open(fileobj=file) as saved:
            manifest = saved.extractfile("manifest.json")
            assert manifest is not None
            (path,) = json.load(manifest)[0]["Layers"]
            with tarfile.open(fileobj=saved.extractfile(path)) as layer:
                return {member.removeprefix("./") for member in layer.getnames()}


def _bash(client: docker.DockerClient, name: str, command: str) -> str:
    output: bytes = client.containers.run(
        name, ["-c", command], entrypoint="bash", network_mode="none", remove=True
    )
    return output.decode()


# Our own Debian


def test_debian_is_made_if_no_registry_answers(client: docker.DockerClient, debian: list[str]) -> None:
    assert debian[0] == f"pulling {NOWHERE}"
    assert debian[1].startswith("no registry answers (")
    assert any(line.startswith("debootstrap: I: ") for line in debian)
    version = "import ssl, sys; print(sys.version_info[:2])"
    assert _bash(client, OWN, f'python3 -c "{version}" && python -c "{version}"') == "(3, 11)\n" * 2
    assert _bash(client, OWN, "python3 -m pip --version").startswith("pip ")
    # All that the build would fetch.
    tools = "rg git curl jq file ps update-ca-certificates"
    assert len(_bash(client, OWN, f"command -v {tools}").split()) == len(tools.split())
    # It is made once.
    before = client.images.get(OWN).id
    said: list[str] = []
    assert base.find_base(client, NOWHERE, said.append) == OWN
    assert client.images.get(OWN).id == before
    assert [line.split()[0] for line in said] == ["pulling", "no"]


def test_debian_has_nothing_of_this_machine(client: docker.DockerClient, debian: list[str]) -> None:
    names = _stored(client, OWN)
    assert "etc/debian_version" in names
    assert names & {"etc/hostname", "etc/resolv.conf", "debootstrap"} == set()
    assert {Path(name).name for name in names} & {".netrc", "pip.conf"} == set()
    assert [name for name in names if name.startswith(("var/cache/apt/", "var/lib/apt/lists/"))] == []
    # Of apt's settings all come with a package but one: where Debian itself is, without a name or password.
    no_package = "find /etc/apt -type f -exec sh -c 'dpkg -S {} > /dev/null 2>&1 || echo {}' ';'"
    assert _bash(client, OWN, no_package).split() == ["/etc/apt/sources.list"]
    kind, address, *rest = _bash(client, OWN, "cat /etc/apt/sources.list").split()
    assert (kind, *rest) == ("deb", "bookworm", "main")
    assert "@" not in address


def test_debian_is_not_made_by_a_user(
    client: docker.DockerClient, packages: None, no_registry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_RECIPE", "another")
    group = Path(endpoint().removeprefix("unix://")).stat().st_gid
    os.setegid(group)  # a user who may use Docker
    os.seteuid(65534)
    try:
        with pytest.raises(ImageMissing, match="only root with debootstrap") as failure:
            base.find_base(client, NOWHERE, lambda _: None)
    finally:
        os.seteuid(0)
        os.setegid(0)
    assert "sudo apt-get install debootstrap" in failure.value.hint


# A registry


@pytest.fixture(scope="module")
def registry(packages: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a registry of our own, with nothing in it."""
    folder = tmp_path_factory.mktemp("registry")
    port = free_port()

    def listens() -> bool:
        with socket.socket() as knock:
            return knock.connect_ex(("127.0.0.1", port)) == 0

    settings = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    (folder / "config.yml").write_text(json.dumps(settings))  # JSON is YAML
    with subprocess.Popen(["docker-registry", "serve", folder / "config.yml"]) as process:
        try:
            eventually(listens)
            yield f"localhost:{port}"
        finally:
            process.terminate()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def python_slim(client: docker.DockerClient, debian: list[str], registry: str) -> str:
    """A base that looks like `python:3.11-slim`: in the registry, and not on this machine."""
    name = f"{registry}/python:3.11-slim"
    client.images.build(fileobj=BytesIO(PYTHON_SLIM.encode()), tag=name, rm=True)
    failed = [event for event in client.images.push(name, stream=True, decode=True) if "error" in event]
    assert failed == []
    client.images.remove(name)
    assert client.images.list(name=name) == []
    return name


def test_base_is_pulled_and_built_on(client: docker.DockerClient, python_slim: str, tmp_path: Path) -> None:
    said: list[str] = []
    info = ensure_image(client, IMAGE, progress=said.append, base=python_slim)
    assert (info.built, info.base) == (True, python_slim)
    assert said[0] == f"pulling {python_slim}"
    assert said[1].startswith(f"pulling {python_slim}: layer ")
    assert client.images.get(IMAGE).labels["code-agent.base"] == python_slim
    assert image_state(client, IMAGE) == "ready"
    said.clear()  # the base is kept without asking for it again
    again = ensure_image(client, IMAGE, progress=said.append)
    assert (again.built, again.base, said) == (False, python_slim, [])

    backend = DockerExecutionBackend(tmp_path, skills_dir=ROOT / "skills", image=IMAGE, name="test")

    def run(command: str) -> str:
        done = backend.execute(command)
        assert done.exit_code == 0, done.output
        return done.output

    with backend:
        plot = "import pandas; pandas.Series([1, 2]).plot().figure.savefig('/results/a.png')"
        shown = run(f'mkdir -p /results/ && python -c "{plot}" && file -b /results/a.png')
        assert shown.startswith("PNG image")
        assert run("whoami") == "agent\n"
        assert run("python -c 'import skills.pdf; print(skills.pdf.__file__)'").startswith("/skills/pdf")
        assert "usage" in run("generate-pdf --help")
        assert run("ls -A /var/lib/apt/lists; ls /usr/bin/python* 2>/dev/null || true") == ""
        tools = "rg git curl jq file ps pip"
        listed = run(f"for tool in {tools}; do $tool --version > /dev/null && echo $tool; done")
        assert listed.split() == tools.split()
