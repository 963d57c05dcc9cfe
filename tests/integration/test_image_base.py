"""Where the image's base comes from: a registry that has it, or a Debian made here where none answers."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile

import docker
import docker.errors
import pytest

from agent.engine_setup import ensure_engine
from libs.backends.docker import DockerExecutionBackend, base
from libs.backends.docker.image import ensure_image, image_state
from libs.sandbox.engine import connect, endpoint
from libs.sandbox.errors import ImageMissing, program

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
OWN = "code-execution-agent-test-base"
IMAGE = "code-execution-agent-test-registry"
RECIPE = "of-these-tests"  # a label of the base, so of all that is built on it
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
        ripgrep git git-man perl curl libcurl4 jq libjq1 file libmagic1 procps libproc2-0 > /dev/null \
    && rm -rf /usr/lib/python3*
ENV LANG=C.UTF-8
CMD ["python3"]
"""


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    ensure_engine(print)
    with closing(connect()) as client:
        _remove_all(client)  # of a run that was cut short
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
    """The programs of Debian that these tests start."""
    missing = [name for name in ("docker-registry", "debootstrap") if shutil.which(name) is None]
    if not missing:
        return
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]
    if os.geteuid() != 0:
        pytest.fail(f"These tests need root, and before them `sudo {' '.join(install)}`.")
    for command in (["apt-get", "update", "-qq"], ["env", "DEBIAN_FRONTEND=noninteractive", *install]):
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            pytest.fail(f"`{' '.join(command)}` failed: {done.stderr}")


@pytest.fixture(scope="module")
def no_registry() -> Iterator[None]:
    """The default base is where no registry answers, and our own Debian goes by a name of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "DEFAULT_BASE", NOWHERE)
        patch.setattr(base, "OWN_BASE", OWN)
        patch.setattr(base, "_RECIPE", RECIPE)
        yield


@dataclass
class Debian:
    name: str
    said: list[str]


@pytest.fixture(scope="module")
def debian(client: docker.DockerClient, packages: None, no_registry: None) -> Debian:
    """Our own Debian, made by the code under test where no registry answers; takes most of a minute."""
    said: list[str] = []
    return Debian(base.find_base(client, NOWHERE, said.append), said)


def _stored(client: docker.DockerClient, name: str) -> set[str]:
    """Paths in the one layer of an image, without what the Engine puts over it in a container."""
    with TemporaryFile() as file:
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


def test_debian_is_made_where_no_registry_answers(client: docker.DockerClient, debian: Debian) -> None:
    assert debian.name == OWN
    assert debian.said[0] == f"pulling {NOWHERE}"
    assert debian.said[1].startswith("no registry answers (")
    assert any(line.startswith("debootstrap: I: ") for line in debian.said)
    version = "import ssl, sys; print(sys.version_info[:2])"
    assert _bash(client, OWN, f'python3 -c "{version}" && python -c "{version}"') == "(3, 11)\n" * 2
    assert _bash(client, OWN, "python3 -m pip --version").startswith("pip ")


def test_debian_has_all_that_the_build_would_fetch(client: docker.DockerClient, debian: Debian) -> None:
    tools = "rg git curl jq file ps update-ca-certificates"
    assert len(_bash(client, OWN, f"command -v {tools}").split()) == len(tools.split())


def test_debian_has_nothing_of_this_machine(client: docker.DockerClient, debian: Debian) -> None:
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


def test_debian_is_made_once(client: docker.DockerClient, debian: Debian) -> None:
    before = client.images.get(OWN).id
    said: list[str] = []
    assert base.find_base(client, NOWHERE, said.append) == OWN
    assert client.images.get(OWN).id == before
    assert [line.split()[0] for line in said] == ["pulling", "no"]


def test_debian_of_another_recipe_is_not_taken_nor_one_made_without_debootstrap(
    client: docker.DockerClient,
    debian: Debian,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(base, "_RECIPE", "another")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImageMissing, match=f"No registry answers for {NOWHERE}") as failure:
        base.find_base(client, NOWHERE, lambda _: None)
    assert f"`sudo apt-get install debootstrap && sudo {program()} setup`" in failure.value.hint
    assert f"docker save {NOWHERE}" in failure.value.hint


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


def test_failing_debootstrap_is_named(
    client: docker.DockerClient, packages: None, no_registry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_RECIPE", "another")
    monkeypatch.setattr(base, "_SUITE", "no-such-suite")
    with pytest.raises(ImageMissing, match=r"debootstrap failed: .*no-such-suite") as failure:
        base.find_base(client, NOWHERE, lambda _: None)
    assert "`sudo debootstrap --variant=minbase" in failure.value.hint
    assert list(Path("/var/tmp").glob("code-agent-base-*")) == []


# A registry


@pytest.fixture(scope="module")
def registry(packages: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a registry of our own, with nothing in it."""
    folder = tmp_path_factory.mktemp("registry")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    settings = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    (folder / "config.yml").write_text(json.dumps(settings))  # JSON is YAML
    log = folder / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            ["docker-registry", "serve", folder / "config.yml"],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        while not _listens(port):
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
            pytest.fail(f"docker-registry ended: {log.read_text()}")
        yield f"localhost:{port}"
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


def _listens(port: int) -> bool:
    with socket.socket() as knock:
        return knock.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def python_slim(client: docker.DockerClient, debian: Debian, registry: str) -> str:
    """A base that looks like `python:3.11-slim`: in the registry, and not on this machine."""
    name = f"{registry}/python:3.11-slim"
    client.images.build(fileobj=BytesIO(PYTHON_SLIM.encode()), tag=name, rm=True)
    failed = [event for event in client.images.push(name, stream=True, decode=True) if "error" in event]
    assert failed == []
    client.images.remove(name)
    assert client.images.list(name=name) == []
    return name


@dataclass
class Built:
    said: list[str]
    backend: DockerExecutionBackend

    def run(self, command: str) -> str:
        done = self.backend.execute(command)
        assert done.exit_code == 0, done.output
        return done.output


@pytest.fixture(scope="module")
def built(
    client: docker.DockerClient, python_slim: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Built]:
    said: list[str] = []
    info = ensure_image(client, IMAGE, progress=said.append, base=python_slim)
    assert info.built
    assert info.base == python_slim
    workspace = tmp_path_factory.mktemp("workspace")
    with DockerExecutionBackend(workspace, skills_dir=ROOT / "skills", image=IMAGE, name="test") as backend:
        yield Built(said, backend)


def test_base_is_pulled_and_built_on(client: docker.DockerClient, python_slim: str, built: Built) -> None:
    assert built.said[0] == f"pulling {python_slim}"
    assert built.said[1].startswith(f"pulling {python_slim}: 1 of ")
    assert client.images.list(name=python_slim) != []
    assert client.images.get(IMAGE).labels["code-agent.base"] == python_slim
    assert image_state(client, IMAGE) == "ready"


def test_base_is_kept_without_asking_for_it_again(
    client: docker.DockerClient, python_slim: str, built: Built
) -> None:
    said: list[str] = []
    again = ensure_image(client, IMAGE, progress=said.append)
    assert (again.built, again.base, said) == (False, python_slim, [])


def test_base_of_the_registry_has_its_own_python_only(built: Built) -> None:
    where = "import os, sys, pandas; print(sys.prefix, os.path.realpath(pandas.__file__))"
    for python in ("python", "python3", "/usr/bin/env python3"):
        prefix, pandas = built.run(f"{python} -c '{where}'").split()
        assert prefix == "/usr/local"
        assert pandas == "/usr/local/lib/python3.11/site-packages/pandas/__init__.py"
    assert built.run("ls /usr/bin/python* 2>/dev/null || true") == ""


def test_image_of_the_registry_plots_and_knows_its_user(built: Built) -> None:
    plot = "import pandas; pandas.Series([1, 2]).plot().figure.savefig('/results/a.png')"
    assert built.run(f'mkdir -p /results/ && python -c "{plot}" && file -b /results/a.png').startswith(
        "PNG image"
    )
    assert built.run("whoami") == "agent\n"


def test_image_of_the_registry_has_the_programs_and_skills(built: Built) -> None:
    tools = "rg git curl jq file ps pip"
    said = built.run(f"for tool in {tools}; do $tool --version > /dev/null && echo $tool; done")
    assert said.split() == tools.split()
    assert built.run("python -c 'import skills.pdf; print(skills.pdf.__file__)'").startswith("/skills/pdf")
    assert "usage" in built.run("generate-pdf --help")


def test_apt_leaves_no_lists_behind(built: Built) -> None:
    assert built.run("ls -A /var/lib/apt/lists") == ""


def test_base_that_the_registry_does_not_have_is_named(client: docker.DockerClient, registry: str) -> None:
    absent = f"{registry}/python:3.99-slim"
    with pytest.raises(
        ImageMissing, match=f"The base image {absent} could not be pulled: .*(?i:not found|unknown)"
    ) as failure:
        ensure_image(client, IMAGE, progress=lambda _: None, base=absent)
    assert f"docker pull {absent}" in failure.value.hint
