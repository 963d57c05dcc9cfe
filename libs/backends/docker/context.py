"""The build context of the sandbox image: everything the Dockerfile copies, gathered on the host."""

from __future__ import annotations

import hashlib
import io
import re
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

from libs.sandbox.errors import ImageMissing
from libs.sandbox.guest import guest_tree

__all__ = ["content_hash", "context_tar", "fetch_wheels", "host_certificates", "project_files", "trust_hash"]

_HERE = Path(__file__).parent
_PYTHON = "3.11"
_CPUS = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}
_GLIBC = range(36, 16, -1)  # bookworm has 2.36; 2.17 is what the oldest wheels in use ask for
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # macOS
)


def project_files(*, browser: bool = False) -> dict[str, bytes]:
    """What this project puts into the image, or its variant with a browser: path -> content."""
    files = {name: (_HERE / name).read_bytes() for name in ("Dockerfile", "requirements.txt")}
    if browser:
        files["extras/requirements.txt"] = (_HERE / "requirements-browser.txt").read_bytes()
    files["skills/__init__.py"] = (_HERE / "skills_package.py").read_bytes()
    return files | {f"guest/{path}": content for path, content in guest_tree().items()}


def content_hash(files: dict[str, bytes], base: str) -> str:
    """Hash of the project's part of the image, and of the name of the image it is built on."""
    return _digest(files | {"base": base.encode()})


def trust_hash(certificates: dict[str, bytes]) -> str:
    """Hash of the host's CA certificates, which belong to the machine and not to the project."""
    return _digest(certificates)


def _digest(files: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path, content in sorted(files.items()):
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def host_certificates() -> dict[str, bytes]:
    """CA certificates this host trusts: file name -> one certificate in PEM.

    From the bundle that OpenSSL is set to (so `SSL_CERT_FILE` counts), else the system's. Empty where
    neither exists: the image then trusts what its base trusts.
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
        except ValueError:  # not base64: no client on this host can use it either
            continue
        # The form that the image's own bundle has, so that doubles can be told.
        certificates[hashlib.sha256(der).hexdigest()[:16] + ".crt"] = ssl.DER_cert_to_PEM_cert(der).encode()
    return certificates


def fetch_wheels(
    cpu: str, cache: Path, progress: Callable[[str], None], requirements: str = "requirements.txt"
) -> Path:
    """Fetch the packages of a list of this folder with the host's pip, once, and return their folder.

    The host's pip has the host's index, proxy, certificates and credentials, local indexes included;
    none of them has to be known inside the build.

    Args:
        cpu: Architecture as the Engine names it: `amd64` or `arm64`.
        cache: Folder that keeps them, about 110 MB; a set of the same list from another time is dropped.
        progress: Told what is fetched.
        requirements: Name of the list.

    Raises:
        ImageMissing: pip failed, with its last lines, or has no wheels for this architecture.
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
        command += [
            "--implementation=cp",
            f"--python-version={_PYTHON}",
            "--abi=cp311",
            "--abi=abi3",
            "--abi=none",
        ]
        command += [f"--platform={platform}" for platform in platforms]
        command += ["--progress-bar=off", f"--dest={unfinished}", f"--requirement={list_}"]
        code, errors = _download(command, _count(list_), progress)
        if code:
            last = " | ".join(line for line in errors.splitlines() if "ERROR" in line) or errors[-500:]
            raise ImageMissing(
                f"pip could not fetch the packages of the image: {last}",
                hint="See with `pip config list` and `pip download pandas` whether pip reaches its index.",
            )
        for old in wheels.iterdir():
            if old != Path(unfinished):
                shutil.rmtree(old)
        shutil.copytree(unfinished, ready)
    return ready


def _count(requirements: Path) -> int:
    lines = requirements.read_text(encoding="utf-8").splitlines()
    return sum(bool(re.match(r"[A-Za-z]", line)) for line in lines)


def _download(command: list[str], count: int, progress: Callable[[str], None]) -> tuple[int, str]:
    """Have pip download `count` packages, telling of each; its exit code, and what it says is wrong."""
    seen = 0
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            errors="replace",
        ) as pip,
    ):
        assert pip.stdout is not None  # noqa: S101 - PIPE was asked for
        for line in pip.stdout:
            if line.startswith("Collecting "):
                seen = min(seen + 1, count)
                progress(f"fetching the Python packages of the image: {seen} of {count}, {line.split()[1]}")
        code = pip.wait()
        errors.seek(0)
        return code, errors.read()


@contextmanager
def context_tar(
    files: dict[str, bytes], certificates: dict[str, bytes], wheels: Path, extras: Path | None = None
) -> Iterator[IO[bytes]]:
    """The context as an open tar file, about 110 MB, on disk. Same inputs, same bytes.

    Args:
        files: see `project_files`.
        certificates: see `host_certificates`.
        wheels: folder of the packages.
        extras: folder of those that the variant with a browser has besides.
    """
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for folder in ("trust", "wheels", "extras", "extras/wheels", "skills", "guest"):
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
