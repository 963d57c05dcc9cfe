"""Moves a workspace out of a sandbox and into it. The sandbox is not trusted: every answer is checked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from libs.sandbox import FileFailed, Tree
from libs.workspace.manifest import Change, Entry, Manifest, inside, is_path, shown

__all__ = [
    "BATCH",
    "Log",
    "Part",
    "Walked",
    "batches",
    "bring_to",
    "digests_in",
    "parts_of",
    "read_parts",
    "steps_to",
    "walked",
]

BATCH: Final = 1024 * 1024
"""Bytes that come out of the sandbox with one request."""
_MOST_FILES: Final = 500
"""Files of one request."""
_PIECE: Final = 64 * 1024
"""Bytes that small contents are gathered to, before they are sent."""
_MOST_STEPS: Final = 10_000
"""Steps of one request."""
_MOST_WALK: Final = 128 * 1024 * 1024
"""Bytes of a walk's answer and of the log: half a million files with long names. Reading the answer takes
several times as much memory."""
_MOST_MARK: Final = 64
"""Characters of a mark."""
_SPECIAL: Final = ["special", 0, None]
"""What a step expects at the path of a FIFO, a socket or a device."""
_MOST_REASON: Final = 200
"""Characters of a reason that the sandbox gives."""


@dataclass(frozen=True, slots=True)
class Log:
    """What walks of a sandbox's workspace have found. Only the sandbox reads it."""

    mark: str = ""
    """By which the sandbox may remember the latest walk."""
    pieces: bytes = b""


@dataclass(frozen=True, slots=True)
class Walked:
    """What a walk has found."""

    manifest: Manifest
    times: Mapping[str, int]
    """Shown path -> when it was changed, in nanoseconds, by the clock of the files."""
    log: Log
    """For the next walk of this sandbox's workspace."""


async def walked(
    sandbox: Tree, base: Manifest, log: Log = Log(), *, most: int, again: Iterable[str], seconds: float
) -> Walked:
    """Find out what the workspace holds now.

    Args:
        base: what the walk that returned `log` has found.
        most: bytes of the largest file whose content is kept.
        again: paths inside of files to read again.
        seconds: time after which no file is read. The others are skipped, and read by later walks.

    Raises:
        FileFailed: the walk failed, or its answer is not valid.
        SandboxError: see `Sandbox`.
    """
    asked: dict[str, Any] = {"most": most, "again": list(again), "seconds": seconds}
    content = b"" if log.mark else log.pieces
    answer, found, piece = await sandbox.atree("walk", content=content, mark=log.mark, **asked)
    if answer.get("forgotten"):
        answer, found, piece = await sandbox.atree("walk", content=log.pieces, mark="", **asked)
    pieces = log.pieces + piece if answer.get("adds") else piece or log.pieces
    try:
        manifest, times = await asyncio.to_thread(_told, found, len(pieces), base, most)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _invalid() from error
    return Walked(manifest, times, Log(str(answer.get("mark", ""))[:_MOST_MARK], pieces))


def _told(found: bytes, log: int, base: Manifest, most: int) -> tuple[Manifest, dict[str, int]]:
    """Read the answer of a walk. See `walked` for the errors of an answer that is not valid.

    Args:
        log: bytes of the log.
    """
    if len(found) + log > _MOST_WALK:
        raise FileFailed(
            "too_many", "the workspace has too many files: remove some, or pack them in archives"
        )
    told = json.loads(found.decode("utf-8", "surrogatepass"))
    skipped = {path: str(why)[:_MOST_REASON] for path, why in told["skipped"].items()}
    times = {shown(path): at for path, at in told["times"].items()}
    change = Change(list(told["rows"]), list(told["deleted"]), skipped)
    if not all(path == "" or is_path(path) for path in (*skipped, *change.deleted)):
        raise ValueError("a path is not in the workspace")
    if not all(type(at) is int for at in times.values()):
        raise ValueError("a time is no number")
    manifest = base.with_change(change)
    if any(row[1] == "file" and row[5] and row[4] > most for row in change.rows):
        raise ValueError("a file is larger than the sandbox was asked to read")
    return manifest, times


Part = tuple[str, int, int]
"""Path inside, offset and length."""


def parts_of(path: str, entry: Entry) -> list[Part]:
    """Return the parts of a large file, one for each request."""
    return [(path, offset, min(BATCH, entry.size - offset)) for offset in range(0, entry.size, BATCH)]


def batches(files: Mapping[str, Entry]) -> Iterable[list[Part]]:
    """Yield whole files as parts, grouped to requests of at most BATCH bytes together, with their paths."""
    batch: list[Part] = []
    room = BATCH
    for path, entry in files.items():
        size = entry.size + len(path)
        if batch and (size > room or len(batch) >= _MOST_FILES):
            yield batch
            batch, room = [], BATCH
        batch.append((path, 0, entry.size))
        room -= size
    if batch:
        yield batch


async def read_parts(sandbox: Tree, parts: Sequence[Part]) -> list[bytes]:
    """Return the content of each part. It is short if the file is shorter by now, or gone."""
    answer, data, _ = await sandbox.atree("parts", parts=list(parts))
    sizes = answer.get("sizes")
    if (
        not isinstance(sizes, list)
        or len(sizes) != len(parts)
        or not all(
            type(size) is int and 0 <= size <= length
            for size, (_, _, length) in zip(sizes, parts, strict=True)
        )
        or sum(sizes) != len(data)
    ):
        raise _invalid()
    contents: list[bytes] = []
    at = 0
    for size in sizes:
        contents.append(data[at : at + size])
        at += size
    return contents


def steps_to(now: Manifest, to: Manifest, paths: Iterable[str]) -> list[dict[str, Any]]:
    """Return the steps that bring paths from one state to another: see `guest/files/tree_apply.py`."""
    removed: list[str] = []
    made: list[str] = []
    for path in paths:
        old, new = now.entries.get(path), to.entries.get(path)
        special = old is None and path in now.skipped
        if special or (old and (new is None or new.kind != old.kind or new.kind == "link")):
            removed.append(path)
        if new:
            made.append(path)
    steps = [
        {"do": "remove", "path": inside(path), "old": _expected(now.entries.get(path)) or _SPECIAL}
        for path in sorted(removed, key=_deepest)
    ]
    gone = set(removed)
    modes: list[dict[str, Any]] = []
    for path in sorted(made):
        old = None if path in gone else now.entries.get(path)
        new = to.entries[path]
        step: dict[str, Any] = {"path": inside(path), "old": _expected(old)}
        if new.kind == "dir":
            if old is None:
                steps.append(step | {"do": "dir", "mode": new.mode})
            modes.append({"do": "mode", "path": inside(path), "old": _expected(new), "mode": new.mode})
        elif new.kind == "link":
            steps.append(step | {"do": "link", "target": new.target})
        elif old and old.sha256 == new.sha256:
            steps.append(step | {"do": "mode", "mode": new.mode, "mtime": new.mtime_ns})
        else:
            steps.append(
                step
                | {
                    "do": "file",
                    "mode": new.mode,
                    "mtime": new.mtime_ns,
                    "size": new.size,
                    "sha256": new.sha256,
                }
            )
    return steps + modes[::-1]


def digests_in(steps: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the SHA-256 of all contents that steps need."""
    return {step["sha256"] for step in steps if step.get("size")}


async def bring_to(
    sandbox: Tree, steps: Sequence[dict[str, Any]], content: Callable[[str], AsyncIterator[bytes]]
) -> dict[str, str]:
    """Take the steps in the sandbox. Return the shown paths that were left alone, each with the reason.

    Args:
        content: yields the content of a SHA-256.

    Raises:
        FileFailed: the steps could not be taken, or not to the end.
    """
    left: dict[str, str] = {}
    room = sum(step.get("size", 0) for step in steps)
    for part in _requests(steps):
        size = sum(step.get("size", 0) for step in part)

        async def feed(part: Sequence[dict[str, Any]] = part) -> AsyncIterator[bytes]:
            held = bytearray()
            for step in part:
                if step.get("size"):
                    async for piece in content(step["sha256"]):
                        held += piece
                        if len(held) >= _PIECE:
                            yield bytes(held)
                            held.clear()
            yield bytes(held)

        answer, _, _ = await sandbox.atree("apply", steps=part, room=room, feed=feed, size=size)
        room -= size
        told = answer.get("left")
        if not isinstance(told, dict) or not told.keys() <= {step["path"] for step in part}:
            raise _invalid()
        left |= {shown(path): str(why)[:_MOST_REASON] for path, why in told.items()}
    return left


def _requests(steps: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Group steps to requests of at most _MOST_STEPS, and of a size that fits into a frame."""
    part: list[dict[str, Any]] = []
    room = BATCH
    for step in steps:
        size = len(step["path"]) + len(step.get("target", ""))
        if part and (size > room or len(part) == _MOST_STEPS):
            yield part
            part, room = [], BATCH
        part.append(step)
        room -= size
    if part:
        yield part


def _invalid() -> FileFailed:
    return FileFailed(
        "failed", "the sandbox sent an invalid answer: reset it with `code-agent sandbox reset`"
    )


def _expected(entry: Entry | None) -> list[Any] | None:
    if entry is None:
        return None
    if entry.kind == "file" and entry.sha256 is None:  # its content is not kept
        return ["unkept", entry.size, entry.mtime_ns]
    return [entry.kind, entry.size, entry.sha256 or entry.target]


def _deepest(path: str) -> tuple[int, str]:
    return -path.count("/"), path
