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
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from typing import Any, Final

from libs.sandbox.disk import new_file, open_regular, write_all
from libs.sandbox.frames import CHUNK, WINDOW, Decoder, Frame, Kind, encode
from libs.sandbox.search import glob, grep
from libs.sandbox.text import edit, read_page

__all__ = ["FileWorker"]

_MOST_ENTRIES: Final = 50_000
"""Entries of one folder that are listed."""


class FileWorker:
    """Serves `file` requests of the supervisor until it goes away. See the module's operations below."""

    def __init__(self, link: socket.socket, *, protected: list[str]) -> None:
        self._link = link
        self._protected = protected
        self._decoder = Decoder()
        self._frames: Iterator[Frame] = self._receive()
        self._do: dict[str, Callable[[int, dict[str, Any]], dict[str, Any]]] = {
            "page": lambda _, request: read_page(**request),
            "edit": lambda _, request: edit(**request),
            "glob": lambda _, request: glob(**request),
            "grep": lambda _, request: grep(**request),
            "ls": lambda _, request: _ls(**request),
            "delete": lambda _, request: self._delete(**request),
            "read": self._read,
            "write": self._write,
        }

    def serve(self) -> None:
        """Do what is asked, one request after the other."""
        for frame in self._frames:
            if frame.kind != Kind.OPEN:
                continue  # input of a request that has failed already
            request = json.loads(frame.payload)
            try:
                answer = self._do[request["do"]](frame.stream, request["arguments"])
            except OSError as error:
                answer = {"error": _code(error), "detail": error.strerror or str(error)}
            except ValueError as error:
                answer = {"error": "invalid_path", "detail": str(error)}
            answer["idle"] = True
            self._link.sendall(encode(frame.stream, Kind.END, json.dumps(answer).encode()))

    def _receive(self) -> Iterator[Frame]:
        while data := self._link.recv(CHUNK):
            yield from self._decoder.feed(data)

    def _read(self, stream: int, request: dict[str, Any]) -> dict[str, Any]:
        """All bytes of a regular file, sent as content."""
        size = 0
        with open_regular(request["path"]) as file:
            while data := os.read(file, CHUNK):
                size += len(data)
                self._link.sendall(encode(stream, Kind.DATA, data))
        return {"size": size}

    def _write(self, stream: int, request: dict[str, Any]) -> dict[str, Any]:
        """Make a file of the `size` bytes that come as input; `replace`: one there may be replaced."""
        path, size, replace = request["path"], request["size"], request["replace"]
        _, name = os.path.split(path)
        if not name or name in (".", ".."):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        if not replace and os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, "File exists", path)
        with new_file(path, replace=replace) as file:
            granted = received = 0
            while received < size:
                if granted - received <= WINDOW // 2 and granted < size:
                    self._link.sendall(encode(stream, Kind.CREDIT, WINDOW.to_bytes(4, "big")))
                    granted += WINDOW
                frame = next(self._frames)
                if frame.stream == stream and frame.kind == Kind.DATA:
                    received += len(frame.payload)
                    write_all(file, frame.payload)
        return {"size": size}

    def _delete(self, path: str) -> dict[str, Any]:
        parent, name = os.path.split(path.rstrip("/"))
        place = os.path.normpath(os.path.join(os.path.realpath(parent or "/"), name))
        for kept in (*self._protected, *map(os.path.realpath, self._protected)):
            if kept == place or kept.startswith(place.rstrip("/") + "/"):
                return {"error": "protected"}
        mode = os.lstat(place).st_mode
        if stat.S_ISDIR(mode):
            shutil.rmtree(place)
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
