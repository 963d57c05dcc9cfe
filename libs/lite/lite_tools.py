"""The three tools of run-lite: list, read and write the files of one folder."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from libs.lite.sandbox_path import (
    MAX_FOLDERS,
    MAX_PATH,
    UNFINISHED,
    LiteError,
    SandboxPath,
    resolve_sandbox_path,
)
from libs.redaction import MARK

__all__ = ["MAX_BYTES", "MAX_LISTED", "TOOLS", "ToolFailed", "call_tool"]

MAX_BYTES = 1_000_000
"""Limit for a file that is read or written."""
MAX_LISTED = 1_000
"""Files in one listing."""


_SECONDS = 5.0
"""Seconds after which a listing ends."""
_UNREACHABLE = " [not the exact name: no tool reaches the file by this path]"
_TOO_LONG = " [the path is too long for the tools]"
_UNREADABLE = " [cannot be read]"
_REDACTED = MARK.decode()
"""What the caller's `redact` puts in the place of a secret."""
_NAMED_SO = " [a file whose name is the text before]"
"""Mark of a file whose path could be taken for another line of a listing."""
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
"""Errors of a folder that was removed meanwhile, or replaced by a file or a link."""
_NO_FILE = {stat.S_IFLNK: " [a link, which is not followed]"}


Redact = Callable[[str], str]


class ToolFailed(LiteError):
    """A tool failed or does not exist."""


def list_files(root: Path, redact: Redact) -> str:
    """Return the files in the folder and below it: sorted, one path a line, or `(empty)`.

    What no tool can reach, such as a link, and what cannot be read, has a mark in brackets. So has a file
    whose path could be taken for another line. A last line says how many files are left out, or that the time
    was used up.
    """
    deadline = time.monotonic() + _SECONDS
    found: list[str] = []
    late = False
    with (
        resolve_sandbox_path(root, ".") as place,
        closing(_files(place.open_folder(), "", MAX_FOLDERS)) as paths,
    ):
        for path in paths:
            if late := time.monotonic() > deadline:
                break
            if path:
                found.append(path)
    shown = [_hidden(line, redact) for line in sorted(found)[:MAX_LISTED]]
    if late:
        shown.append(f"(there may be more: the listing ended after {_SECONDS:g} s)")
    elif len(found) > MAX_LISTED:
        shown.append(f"({len(found) - MAX_LISTED:,} more)")
    return redact("\n".join(shown)) or "(empty)"


def read_file(root: Path, redact: Redact, path: str) -> str:
    """Return the text of a file."""
    with resolve_sandbox_path(root, path) as place:
        return redact(_text(place, path))


def _text(place: SandboxPath, path: str) -> str:
    with os.fdopen(place.open_file(), "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ToolFailed(f"read_file: {path!r} has more than {MAX_BYTES:,} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ToolFailed(f"read_file: {path!r} is not text in UTF-8") from None


def write_file(root: Path, redact: Redact, path: str, content: str) -> str:
    """Create or replace a file in one step; missing folders are created.

    A file with a secret is not replaced by a text that has the mark of a secret.
    """
    try:
        data = content.encode("utf-8")
    except UnicodeEncodeError:
        raise ToolFailed("write_file: 'content' holds half of a surrogate pair, which is not text") from None
    if len(data) > MAX_BYTES:
        raise ToolFailed(f"write_file: 'content' has {len(data):,} bytes, and {MAX_BYTES:,} are allowed")
    with resolve_sandbox_path(root, path, make_folders=True) as place:
        if (kind := place.kind()) not in (0, stat.S_IFREG):
            number = {stat.S_IFDIR: errno.EISDIR, stat.S_IFLNK: errno.ELOOP}.get(kind, errno.EINVAL)
            raise OSError(number, "no regular file")
        if _REDACTED in content and kind and _has_secret(place, path, redact):
            why = f"holds a known secret, which {_REDACTED} would replace: the file is as before"
            raise ToolFailed(f"write_file: {path!r} {why}")
        place.replace(data)
    return f"Wrote {len(data):,} bytes to {path}"


def _has_secret(place: SandboxPath, path: str, redact: Redact) -> bool:
    """Return whether the tools have a text of this file without its secrets."""
    try:
        text = _text(place, path)
    except (OSError, ToolFailed):  # no tool can read it
        return False
    return redact(text) != text


TOOLS: Mapping[str, tuple[Callable[..., str], Sequence[str]]] = {
    "list_files": (list_files, ()),
    "read_file": (read_file, ("filePath",)),
    "write_file": (write_file, ("filePath", "content")),
}
"""Name -> function, and the names of its arguments in order. Every argument is a required string."""

_REASONS = {
    errno.ENOENT: "is not there",
    errno.EISDIR: "is a folder",
    errno.ELOOP: "is a link, which is not followed",
    errno.EINVAL: "is not a regular file",
    errno.ENXIO: "is not a regular file",
}


def call_tool(root: Path, name: str, args: Mapping[str, Any], redact: Redact = str) -> str:
    """Call a tool on the folder `root`. Blocks.

    `redact`: removes secrets from what the tools read.

    Raises:
        ToolFailed: the tool does not exist or failed, or arguments are missing, unknown or no text. The
            message names all wrong arguments.
        PathRefused: the path leads out of the folder.
    """
    if name not in TOOLS:
        raise ToolFailed(f"Unknown tool {name[:100]!r}. Allowed: {', '.join(TOOLS)}")
    call, takes = TOOLS[name]
    wrong = [f"the argument {key!r} is missing" for key in takes if key not in args]
    wrong += [
        f"the argument {key!r} must be a string" for key in takes if not isinstance(args.get(key, ""), str)
    ]
    wrong += [f"there is no argument {key[:100]!r}" for key in args if key not in takes]
    if wrong:
        usage = f"Arguments of {name}: {', '.join(takes) or 'none'}"
        raise ToolFailed(f"{name}: {'; '.join(wrong)}. {usage}")
    try:
        return call(root, redact, *(args[key] for key in takes))
    except OSError as error:
        why = _REASONS.get(error.errno or 0) or f"failed: {error.strerror}"
        raise ToolFailed(f"{name}: {args.get('filePath', '.')!r} {why}") from None


def _hidden(line: str, redact: Redact) -> str:
    """Return a line of a listing without secrets. The model never has a name with a secret."""
    told = redact(line)
    return told if told == line or line.endswith(_UNREACHABLE) else told + _UNREACHABLE


def _files(folder: int, prefix: str, depth: int, *, exact: bool = True) -> Generator[str]:
    """Yield the files in a folder and below; close the descriptor.

    Yields an empty text first for each name, so that the caller can end a long search.

    `exact`: whether `prefix` is the exact path of the folder. If not, no tool reaches what is in the folder.
    """
    try:
        for name in os.listdir(folder):
            yield ""
            place = SandboxPath(folder, name)
            kind = place.kind()
            shown = prefix + _shown(name)
            same = exact and _shown(name) == name
            mark = _UNREACHABLE if not same else _TOO_LONG if len(shown) > MAX_PATH else ""
            if kind == stat.S_IFREG and not UNFINISHED.fullmatch(name):
                if not mark and not os.access(name, os.R_OK, dir_fd=folder, effective_ids=True):
                    mark = _UNREADABLE
                yield shown + (mark or _NAMED_SO * (shown.endswith("]") or shown.startswith("(")))
            elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                yield shown + _NO_FILE.get(kind, " [not a regular file]")
            elif kind == stat.S_IFDIR and (mark == _TOO_LONG or not depth):
                yield f"{shown}/{_TOO_LONG if depth else ' [too deep: not listed]'}"
            elif kind == stat.S_IFDIR:
                try:
                    inner = place.open_folder()
                except OSError as error:
                    if error.errno not in _GONE:
                        yield f"{shown}/{_UNREADABLE}"
                else:
                    yield from _files(inner, f"{shown}/", depth - 1, exact=same)
    except PermissionError:  # a folder without x
        yield f"{prefix or './'}{_UNREADABLE}"
    finally:
        os.close(folder)


def _shown(name: str) -> str:
    """Return a name for one line, with backslashes for bytes that are not UTF-8 and for line ends."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(char if len((char + "x").splitlines()) == 1 else ascii(char)[1:-1] for char in text)
