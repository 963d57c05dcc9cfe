"""The inputs of the image: its hash and its build context."""

from __future__ import annotations

import hashlib
import ssl
import tarfile
from pathlib import Path

import pytest

from libs.backends.docker.build_context import (
    content_hash,
    context_tar,
    fetch_wheels,
    host_certificates,
    project_files,
)
from libs.sandbox.errors import ImageMissing


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
    assert content_hash(dict(reversed(files.items())), "a") == content_hash(files, "a")


def test_context_holds_what_the_dockerfile_copies_and_nothing_else(tmp_path: Path) -> None:
    for name in ("wheels", "extras"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}-1-py3-none-any.whl").write_bytes(b"wheel")
    files = project_files(browser=True)
    with (
        context_tar(files, {"0.crt": b"pem"}, tmp_path / "wheels", tmp_path / "extras") as context,
        tarfile.open(fileobj=context) as tar,
    ):
        names = {member.name for member in tar.getmembers() if member.isfile()}
        assert all(member.uid == 0 and member.mtime == 0 for member in tar.getmembers())
    wheels = {"wheels/wheels-1-py3-none-any.whl", "extras/wheels/extras-1-py3-none-any.whl"}
    assert names == set(files) | {"trust/0.crt"} | wheels


def test_certificates_come_from_the_configured_bundle_without_broken_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = _bundle(tmp_path / "bundle.pem", b"one", b"two", b"one")
    bundle.write_text("-----BEGIN CERTIFICATE-----\nxyz\n-----END CERTIFICATE-----\n" + bundle.read_text())
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    certificates = host_certificates()
    assert sorted(certificates.values()) == sorted(
        ssl.DER_cert_to_PEM_cert(der).encode() for der in (b"one", b"two")
    )
    assert all(name.endswith(".crt") for name in certificates)  # required by update-ca-certificates


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
    assert list((tmp_path / "wheels").iterdir()) == []  # a partial download is not used next time


def test_unknown_architecture_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImageMissing, match="riscv64"):
        fetch_wheels("riscv64", tmp_path, lambda _: None)


def test_wheels_are_fetched_once_for_each_list(tmp_path: Path) -> None:
    files = project_files(browser=True)
    said: list[str] = []
    for folder, requirements, argument in (
        ("wheels", "requirements.txt", ()),
        ("wheels-browser", "extras/requirements.txt", ("requirements-browser.txt",)),
    ):
        ready = tmp_path / folder / hashlib.sha256(files[requirements] + b"x86_64").hexdigest()[:16]
        ready.mkdir(parents=True)
        assert fetch_wheels("amd64", tmp_path, said.append, *argument) == ready
    assert said == []
    assert len(list((tmp_path / "wheels").iterdir())) == 1
