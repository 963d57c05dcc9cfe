"""A worker for the file operations, inside the sandbox (standard library only).

It runs as the sandbox user in the sandbox's own file system, so a path means the same here and in a
command, and a link reaches only what a command reaches. Where a file blocks it, the supervisor's deadline
ends it and another takes its place.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from typing import Any, Final

from libs.sandbox.disk import new_file, open_regular, write_all
from libs.sandbox.frames import (
    ANSWER,
    CHUNK,
    EARLY,
    MAX_PAYLOAD,
    MOST_CONTENT,
    REQUEST,
    WINDOW,
    Ending,
    Frame,
    Kind,
    encode,
)
from libs.sandbox.link import Gone, Link
from libs.sandbox.search import glob, grep
from libs.sandbox.text import edit, read_page

__all__ = ["FileWorker"]

_MOST_ENTRIES: Final = 50_000
"""Entries of one folder that are listed."""
_MOST_TOLD: Final = 500
"""Characters of what a program says that are told."""


class FileWorker:
    """Serves `file` requests of the supervisor until it goes away. See the module's operations below."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._replaced: list[int] = []  # descriptors that are closed when the answer is on its way
        self._frames: Iterator[Frame] = link.frames()
        self._do: dict[str, Callable[[int, dict[str, Any]], dict[str, Any]]] = {
            "page": lambda _, request: read_page(**request),
            "edit": lambda _, request: edit(**request, replaced=self._replaced),
            "glob": lambda _, request: glob(**request),
            "grep": lambda _, request: grep(**request),
            "ls": lambda _, request: _ls(**request),
            "delete": lambda _, request: _delete(**request),
            "read": self._read,
            "write": self._write,
        }

    def serve(self) -> None:
        """Do what is asked, one request after the other."""
        for stream, kind, payload, _ in self._frames:
            if kind != Kind.OPEN:
                continue  # input of a request that has failed already
            request = json.loads(payload[REQUEST.size :].decode("utf-8", "surrogatepass"))
            try:
                answer = self._do[request["do"]](stream, request["arguments"])
            except OSError as error:
                answer = {"error": _code(error), "detail": error.strerror or str(error)}
            except ValueError as error:
                answer = {"error": "invalid_path", "detail": str(error)}
            body = json.dumps(answer, ensure_ascii=False).encode("utf-8", "surrogatepass")
            if len(body) > MAX_PAYLOAD // 2:
                body = b'{"error": "too_many", "detail": "there is more than can be told: narrow it down"}'
            self._link.send(encode(stream, Kind.END, ANSWER.pack(Ending.DONE, True) + body))
            while self._replaced:
                os.close(self._replaced.pop())

    def _next(self) -> Frame:
        for frame in self._frames:
            return frame
        raise Gone

    def _read(self, stream: int, request: dict[str, Any]) -> dict[str, Any]:
        """All bytes of a regular file, sent as content."""
        with open_regular(request["path"]) as file:
            size = os.fstat(file).st_size
            if size <= MOST_CONTENT:
                size = 0
                # Counted as well: it may grow while it is read.
                while size <= MOST_CONTENT and (data := os.read(file, CHUNK)):
                    size += len(data)
                    self._link.send(encode(stream, Kind.DATA, data))
        if size > MOST_CONTENT:
            return {
                "error": "too_large",
                "detail": f"only files up to {MOST_CONTENT} bytes leave the sandbox",
            }
        return {"size": size}

    def _write(self, stream: int, request: dict[str, Any]) -> dict[str, Any]:
        """Make a file of the `size` bytes that come as input; `replace`: one there may be replaced."""
        path, size, replace = request["path"], request["size"], request["replace"]
        _, name = os.path.split(path)
        if not name or name in (".", ".."):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        if not replace and os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, "File exists", path)
        with new_file(path, replace=replace, replaced=self._replaced) as file:
            granted, received = EARLY, 0
            while received < size:
                if granted - received <= WINDOW // 2 and granted < size:
                    self._link.send(encode(stream, Kind.CREDIT, WINDOW.to_bytes(4, "big")))
                    granted += WINDOW
                sender, kind, payload, _ = self._next()
                if sender == stream and kind == Kind.DATA:
                    received += len(payload)
                    write_all(file, payload)
        return {"size": size}


def _delete(path: str, protected: list[str]) -> dict[str, Any]:
    """Delete a file, or a folder with all it holds, but nothing that is or holds a protected one."""
    parent, name = os.path.split(path.rstrip("/"))
    place = os.path.normpath(
        os.path.join(os.path.realpath(parent or ("/" if path.startswith("/") else ".")), name)
    )
    for kept in (*protected, *map(os.path.realpath, protected)):
        if kept == place or kept.startswith(place.rstrip("/") + "/"):
            return {"error": "protected"}
    if stat.S_ISDIR(os.lstat(place).st_mode):
        # Not `shutil.rmtree`: it recurses, and a folder can be nested deeper than Python's stack.
        done = subprocess.run(["rm", "-rf", "--", place], capture_output=True, check=False)
        if done.returncode:
            told = done.stderr.decode("utf-8", "replace").strip()
            cut = {"cut_after": "detail"} if len(told) > _MOST_TOLD else {}
            return {"error": "failed", "detail": told[:_MOST_TOLD], **cut}
    else:
        os.unlink(place)
    return {}


def _ls(path: str) -> dict[str, Any]:
    entries: list[dict[str, Any]] = []
    with os.scandir(path) as folder:
        for entry in folder:
            if len(entries) == _MOST_ENTRIES:
                return {"error": "too_many", "detail": f"more than {_MOST_ENTRIES} entries"}
            info: dict[str, Any] = {"path": os.path.join(path, entry.name), "is_dir": False}
            with contextlib.suppress(OSError):  # gone meanwhile, or a link to nowhere
                result = entry.stat()
                info["is_dir"] = stat.S_ISDIR(result.st_mode)
                info["size"] = result.st_size
                info["modified"] = result.st_mtime
            entries.append(info)
    entries.sort(key=lambda info: info["path"])
    return {"entries": entries}


def _code(error: OSError) -> str:
    """The file tools' word for an error. See deepagents' FileOperationError."""
    if isinstance(error, FileNotFoundError):
        return "file_not_found"
    if isinstance(error, IsADirectoryError):
        return "is_directory"
    if isinstance(error, FileExistsError):
        return "exists"
    if isinstance(error, NotADirectoryError):
        return "not_a_directory"
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return "permission_denied"
    return "failed"
