"""The three tools: they list, read and write the files of one folder."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from libs.lite.errors import LiteError
from libs.lite.sandbox_path import SandboxPath, resolve_sandbox_path

__all__ = ["MAX_BYTES", "MAX_LISTED", "TOOLS", "ToolFailed", "call_tool"]

MAX_BYTES = 1_000_000
"""What a file may have to be read, or to be written."""
MAX_LISTED = 1_000
"""Files in one listing."""
_MAX_DEPTH = 32
_UNFINISHED = ".lite-"
"""What names begin with while a file is written; they are never listed."""


class ToolFailed(LiteError):
    """A tool cannot do what it was asked for, or there is no such tool."""


def list_files(root: Path, path: str = ".") -> str:
    """The files below a folder, one path a line, sorted; links are none. `(empty)` where there are none."""
    with resolve_sandbox_path(root, path) as place:
        prefix = "".join(f"{name}/" for name in path.split("/") if name not in ("", "."))
        found = sorted(_files(place.open_folder(), prefix, _MAX_DEPTH))
    shown = found[:MAX_LISTED]
    if len(found) > MAX_LISTED:
        shown.append(f"({len(found) - MAX_LISTED:,} more: list a folder of these)")
    return "\n".join(shown) or "(empty)"


def read_file(root: Path, path: str) -> str:
    """The text of a file."""
    with resolve_sandbox_path(root, path) as place, os.fdopen(place.open_file(), "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ToolFailed(f"read_file: {path!r} has more than {MAX_BYTES:,} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ToolFailed(f"read_file: {path!r} is not text in UTF-8") from None


def write_file(root: Path, path: str, content: str) -> str:
    """Make or replace a file, whole or not at all; folders on the way are made."""
    try:
        data = content.encode("utf-8")
    except UnicodeEncodeError:
        raise ToolFailed("write_file: 'content' holds half of a surrogate pair, which is no text") from None
    if len(data) > MAX_BYTES:
        raise ToolFailed(f"write_file: 'content' has {len(data):,} bytes, and {MAX_BYTES:,} are allowed")
    with resolve_sandbox_path(root, path, make_folders=True) as place:
        if (kind := place.kind()) not in (0, stat.S_IFREG):
            raise ToolFailed(f"write_file: {path!r} is {_KINDS.get(kind, 'no regular file')}")
        _replace(place, data)
    return f"Wrote {len(data):,} bytes to {path}"


TOOLS: Mapping[str, tuple[Callable[..., str], Mapping[str, bool]]] = {
    "list_files": (list_files, {"path": False}),
    "read_file": (read_file, {"path": True}),
    "write_file": (write_file, {"path": True, "content": True}),
}
"""Name -> the tool, and its arguments (all of them text): whether each is required."""

_KINDS = {stat.S_IFLNK: "a link, which is not followed", stat.S_IFDIR: "a folder"}

_REASONS = {
    errno.ENOENT: "is not there",
    errno.EISDIR: "is a folder",
    errno.ENOTDIR: "is no folder, or passes through a file",
    errno.ELOOP: "is a link, which is not followed",
    errno.EINVAL: "is no regular file",
    errno.ENXIO: "is no regular file",
    errno.ENAMETOOLONG: "has a part that is too long for a name",
    errno.EACCES: "may not be read or changed by this program",
    errno.ENOSPC: "cannot be written: the disk is full",
}


def call_tool(root: Path, name: str, args: Mapping[str, Any]) -> str:
    """Call a tool on the folder `root`; blocks, so not for an event loop.

    Raises:
        ToolFailed: there is no such tool, an argument is missing, unknown or no text, or the tool failed.
        PathRefused: the path leads out of the folder.
    """
    if name not in TOOLS:
        raise ToolFailed(f"Unknown tool {name[:100]!r}. Allowed: {', '.join(TOOLS)}")
    call, takes = TOOLS[name]
    for key, required in takes.items():
        if required and key not in args:
            raise ToolFailed(f"{name}: the argument {key!r} is missing")
    for key, value in args.items():
        if key not in takes:
            raise ToolFailed(f"{name}: there is no argument {key[:100]!r}; it takes {', '.join(takes)}")
        if not isinstance(value, str):
            raise ToolFailed(f"{name}: the argument {key!r} must be a string")
    try:
        return call(root, **args)
    except OSError as error:
        why = _REASONS.get(error.errno or 0) or f"failed: {error.strerror}"
        raise ToolFailed(f"{name}: {args.get('path', '.')!r} {why}") from None


def _files(folder: int, prefix: str, depth: int) -> Iterator[str]:
    """The files in a folder and below; closes its descriptor."""
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, _kind(entry)) for entry in entries]
        for name, kind in found:
            shown = os.fsencode(name).decode("utf-8", "replace")
            if kind == stat.S_IFREG and not name.startswith(_UNFINISHED):
                yield prefix + shown
            elif kind == stat.S_IFDIR and depth:
                # Gone by now, or something else: then it is not listed.
                with suppress(OSError):
                    yield from _files(SandboxPath(folder, name).open_folder(), f"{prefix}{shown}/", depth - 1)
    finally:
        os.close(folder)


def _kind(entry: os.DirEntry[str]) -> int:
    """Regular file, folder, or 0 for anything else; links are neither."""
    if entry.is_file(follow_symlinks=False):
        return stat.S_IFREG
    return stat.S_IFDIR if entry.is_dir(follow_symlinks=False) else 0


def _replace(place: SandboxPath, data: bytes) -> None:
    """Write beside it, then take its name: nobody reads half a file, and a link there is not followed."""
    unfinished = f"{_UNFINISHED}{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    opened = os.open(unfinished, flags, 0o666, dir_fd=place.folder)
    try:
        with os.fdopen(opened, "wb") as file:
            file.write(data)
        os.rename(unfinished, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished, dir_fd=place.folder)
        raise
