"""Gathers the build context of the sandbox image: all files that the Dockerfile copies."""

from __future__ import annotations

import hashlib
import io
import shutil
import ssl
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from libs.sandbox import ImageMissing, guest_tree

__all__ = ["content_hash", "context_tar", "fetch_wheels", "host_certificates", "project_files", "trust_hash"]

_HERE = Path(__file__).parent
_READER = _HERE.parents[1] / "tablereader"
_PYTHON = "3.11"
_CPUS = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}
_GLIBC = range(36, 16, -1)  # bookworm has 2.36; the oldest wheels in use need 2.17
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # macOS
)


def project_files(*, browser: bool = False) -> dict[str, bytes]:
    """Return the project's files for the image or its browser variant: path -> content."""
    files = {name: (_HERE / name).read_bytes() for name in ("Dockerfile", "requirements.txt")}
    if browser:
        files["extras/requirements.txt"] = (_HERE / "requirements-browser.txt").read_bytes()
    files["skills/__init__.py"] = (_HERE / "skills_package.py").read_bytes()
    reader = {f"tablereader/{file.name}": file.read_bytes() for file in sorted(_READER.glob("*.py"))}
    return files | reader | {f"guest/{path}": content for path, content in guest_tree().items()}


def content_hash(files: dict[str, bytes], base: str) -> str:
    """Return a hash of the project's files and of the name of the base image."""
    return _digest(files | {"base": base.encode()})


def trust_hash(certificates: dict[str, bytes]) -> str:
    """Return a hash of the host's CA certificates."""
    return _digest(certificates)


def _digest(files: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path, content in sorted(files.items()):
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def host_certificates() -> dict[str, bytes]:
    """Return the CA certificates that this host trusts: file name -> one certificate in PEM.

    They come from OpenSSL's configured bundle (so `SSL_CERT_FILE` counts) or else the system's bundle. Empty
    if neither exists. The image then trusts the certificates of its base.
    """
    chosen = ssl.get_default_verify_paths().cafile
    bundle = next((Path(p) for p in (chosen, *_BUNDLES) if p and Path(p).is_file()), None)
    if bundle is None:
        return {}
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    certificates: dict[str, bytes] = {}
    for part in bundle.read_text("utf-8", "replace").split(begin)[1:]:
        try:
            der = ssl.PEM_cert_to_DER_cert(begin + part.split(end)[0] + end)
        except ValueError:  # not base64: no client can use this certificate
            continue
        # In the form of the image's bundle, so that duplicates are recognised.
        certificates[hashlib.sha256(der).hexdigest()[:16] + ".crt"] = ssl.DER_cert_to_PEM_cert(der).encode()
    return certificates


def fetch_wheels(
    cpu: str, cache: Path, progress: Callable[[str], None], requirements: str = "requirements.txt"
) -> Path:
    """Download the packages of a list in this folder with the host's pip, once. Return their folder.

    The host's pip knows the host's index, proxy, certificates and credentials, so the build needs none of
    them.

    Args:
        cpu: the Engine's architecture, `amd64` or `arm64`.
        cache: folder for the packages, about 110 MB. An older set of the same list is removed.
        progress: called with each step.
        requirements: file name of the list.

    Raises:
        ImageMissing: pip failed (the message has its last lines), or the architecture is not supported.
    """
    machine = _CPUS.get(cpu)
    if machine is None:
        raise ImageMissing(
            f"There are no ready-made Python packages for {cpu}.", hint="Use an Engine on amd64 or arm64."
        )
    list_ = _HERE / requirements
    wheels = cache / requirements.replace("requirements", "wheels").removesuffix(".txt")
    ready = wheels / hashlib.sha256(list_.read_bytes() + machine.encode()).hexdigest()[:16]
    if ready.is_dir():
        return ready
    progress("fetching the Python packages of the image")
    wheels.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=wheels) as unfinished:
        platforms = [f"manylinux_2_{minor}_{machine}" for minor in _GLIBC] + [f"manylinux2014_{machine}"]
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
        command += ["--implementation=cp", f"--python-version={_PYTHON}"]
        command += ["--abi=cp311", "--abi=abi3", "--abi=none"]
        command += [f"--platform={platform}" for platform in platforms]
        command += ["--progress-bar=off", f"--dest={unfinished}", f"--requirement={list_}"]
        code, lines = _download(command, progress)
        if code:
            last = " | ".join([line for line in lines if "ERROR" in line] or lines[-3:])
            raise ImageMissing(
                f"pip could not fetch the packages of the image: {last}",
                hint="See with `pip config list` and `pip download pandas` whether pip reaches its index.",
            )
        for old in wheels.iterdir():
            if old != Path(unfinished):
                shutil.rmtree(old)
        shutil.copytree(unfinished, ready)
    return ready


def _download(command: list[str], progress: Callable[[str], None]) -> tuple[int, list[str]]:
    """Run pip and report each package. Return its exit code and the lines of its output."""
    lines: list[str] = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as pip:
        assert pip.stdout is not None  # noqa: S101 - PIPE was asked for
        for line in pip.stdout:
            lines.append(line.strip())
            if line.startswith("Collecting "):
                progress(f"fetching the Python packages of the image: {line.split()[1]}")
    return pip.returncode, lines


@contextmanager
def context_tar(
    files: dict[str, bytes], certificates: dict[str, bytes], wheels: Path, extras: Path | None = None
) -> Iterator[IO[bytes]]:
    """Provide the context as an open tar file on disk, about 110 MB. Equal inputs give equal bytes.

    Args:
        files: see `project_files`.
        certificates: see `host_certificates`.
        wheels: folder of the packages.
        extras: folder of the additional packages of the browser variant.
    """
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for folder in ("trust", "wheels", "extras", "extras/wheels", "skills", "tablereader", "guest"):
                _add_folder(tar, folder)
            for path, content in sorted(files.items()):
                _add(tar, path, content)
            for name, content in sorted(certificates.items()):
                _add(tar, f"trust/{name}", content)
            for folder, source in (("wheels", wheels), ("extras/wheels", extras)):
                for wheel in sorted(source.iterdir()) if source else ():
                    _add(tar, f"{folder}/{wheel.name}", wheel.read_bytes())
        file.seek(0)
        yield file


def _add_folder(tar: tarfile.TarFile, name: str) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(info)


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o644
    tar.addfile(info, io.BytesIO(content))
