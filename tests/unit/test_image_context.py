"""The inputs of the image: what its hash covers, what enters the build, and what stays out."""

from __future__ import annotations

import hashlib
import io
import ssl
import tarfile
from pathlib import Path

import pytest

from libs.backends.docker.context import (
    content_hash,
    context_tar,
    fetch_wheels,
    host_certificates,
    project_files,
    trust_hash,
)
from libs.sandbox.errors import ImageMissing
from libs.sandbox.guest import GUEST_MODULES


def _bundle(path: Path, *ders: bytes) -> Path:
    path.write_text("# names may stand between\n".join(ssl.DER_cert_to_PEM_cert(der) for der in ders))
    return path


def test_hash_changes_with_every_file_and_with_the_base() -> None:
    files = project_files()
    hashes = {content_hash(files, "a"), content_hash(files, "b")}
    for path in files:
        hashes.add(content_hash(files | {path: files[path] + b"\n"}, "a"))
        hashes.add(content_hash({p: c for p, c in files.items() if p != path}, "a"))
    assert len(hashes) == 2 + 2 * len(files)


def test_the_variant_with_a_browser_is_the_rest_and_more() -> None:
    plain, more = project_files(), project_files(browser=True)
    assert more.keys() - plain.keys() == {"extras/requirements.txt"}
    assert more | plain == more
    assert content_hash(plain, "a") != content_hash(more, "a")


def test_hash_does_not_depend_on_order() -> None:
    files = project_files()
    assert content_hash(dict(reversed(files.items())), "a") == content_hash(files, "a")


def test_container_end_is_part_of_the_image_without_the_rest_of_libs() -> None:
    guest = {path for path in project_files() if path.startswith("guest/")}
    assert guest == {f"guest/libs/sandbox/{name}.py" for name in GUEST_MODULES}


def test_every_package_is_pinned_once() -> None:
    files = project_files(browser=True)
    packages: list[str] = []
    for name in ("requirements.txt", "extras/requirements.txt"):
        lines = files[name].decode().splitlines()
        packages += [line for line in lines if line and not line.startswith("#")]
    assert len(packages) > 20
    assert [line for line in packages if "==" not in line or " " in line] == []
    assert len({line.partition("==")[0].replace("_", "-") for line in packages}) == len(packages)


def test_context_holds_what_the_dockerfile_copies_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a-1-py3-none-any.whl").write_bytes(b"wheel")
    files = project_files()
    with context_tar(files, {"0.crt": b"pem"}, tmp_path) as context, tarfile.open(fileobj=context) as tar:
        names = {member.name for member in tar.getmembers() if member.isfile()}
        assert all(member.uid == 0 and member.mtime == 0 for member in tar.getmembers())
    assert names == set(files) | {"trust/0.crt", "wheels/a-1-py3-none-any.whl"}


def test_context_of_the_variant_holds_its_packages_apart(tmp_path: Path) -> None:
    for name in ("wheels", "extras"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}-1-py3-none-any.whl").write_bytes(b"wheel")
    files = project_files(browser=True)
    with (
        context_tar(files, {}, tmp_path / "wheels", tmp_path / "extras") as context,
        tarfile.open(fileobj=context) as tar,
    ):
        names = {member.name for member in tar.getmembers() if member.isfile()}
    wheels = {"wheels/wheels-1-py3-none-any.whl", "extras/wheels/extras-1-py3-none-any.whl"}
    assert names == set(files) | wheels


def test_same_inputs_make_the_same_context(tmp_path: Path) -> None:
    def digest() -> str:
        with context_tar(project_files(), {}, tmp_path) as context:
            return hashlib.sha256(context.read()).hexdigest()

    assert digest() == digest()


def test_certificates_are_those_the_host_is_set_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(_bundle(tmp_path / "bundle.pem", b"one", b"two", b"one")))
    certificates = host_certificates()
    assert sorted(certificates.values()) == sorted(
        ssl.DER_cert_to_PEM_cert(der).encode() for der in (b"one", b"two")
    )
    assert all(name.endswith(".crt") for name in certificates)  # what update-ca-certificates takes up


def test_damaged_certificate_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = _bundle(tmp_path / "bundle.pem", b"one")
    bundle.write_text("-----BEGIN CERTIFICATE-----\nxyz\n-----END CERTIFICATE-----\n" + bundle.read_text())
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    assert list(host_certificates().values()) == [ssl.DER_cert_to_PEM_cert(b"one").encode()]


def test_trust_changes_with_the_certificates() -> None:
    assert trust_hash({}) != trust_hash({"a.crt": b"1"}) != trust_hash({"a.crt": b"2"})


def test_failing_pip_is_named_without_its_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "http://someone:hunter2@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(ImageMissing) as failure:
        fetch_wheels("amd64", tmp_path, lambda _: None)
    assert "No matching distribution" in str(failure.value)
    assert "pip config list" in failure.value.hint
    assert "hunter2" not in str(failure.value) + failure.value.hint
    assert list((tmp_path / "wheels").iterdir()) == []  # nothing half-done is taken for ready next time


def test_unknown_architecture_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImageMissing, match="riscv64"):
        fetch_wheels("riscv64", tmp_path, lambda _: None)


def test_wheels_are_fetched_once(tmp_path: Path) -> None:
    digest = hashlib.sha256(project_files()["requirements.txt"] + b"x86_64").hexdigest()[:16]
    ready = tmp_path / "wheels" / digest
    ready.mkdir(parents=True)
    said: list[str] = []
    assert fetch_wheels("amd64", tmp_path, said.append) == ready
    assert said == []


def test_wheels_of_the_variant_are_kept_beside_the_others(tmp_path: Path) -> None:
    kept = tmp_path / "wheels" / "0"
    kept.mkdir(parents=True)
    list_ = project_files(browser=True)["extras/requirements.txt"]
    ready = tmp_path / "wheels-browser" / hashlib.sha256(list_ + b"x86_64").hexdigest()[:16]
    ready.mkdir(parents=True)
    assert fetch_wheels("amd64", tmp_path, print, "requirements-browser.txt") == ready
    assert kept.is_dir()


def test_context_is_a_tar_docker_reads(tmp_path: Path) -> None:
    with context_tar(project_files(), {}, tmp_path) as context:
        data = io.BytesIO(context.read())
    with tarfile.open(fileobj=data) as tar:
        folders = {member.name for member in tar.getmembers() if member.isdir()}
        dockerfile = tar.extractfile("Dockerfile")
        assert dockerfile is not None
        copied = {
            line.split()[1].rstrip("/")
            for line in dockerfile.read().decode().splitlines()
            if line[:5] == "COPY "
        }
    assert {source for source in copied if not source.startswith("--")} <= folders | {"requirements.txt"}
