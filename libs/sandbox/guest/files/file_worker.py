"""Serves file operations inside the sandbox (standard library only).

The worker runs as the sandbox's user in the sandbox's file system. So a path means the same as in a command,
and a link reaches only what a command reaches. If a file blocks the worker, the supervisor kills it at the
deadline and starts another.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import resource
from collections.abc import Callable, Iterator
from typing import Any

from libs.sandbox.guest.files.deletion import delete
from libs.sandbox.guest.files.disk import (
    InUse,
    new_file,
    open_regular,
    refuse_existing,
    write_all,
)
from libs.sandbox.guest.files.latest_walk import LatestWalk
from libs.sandbox.guest.files.search import glob, grep, ls
from libs.sandbox.guest.files.text_files import edit, read_page
from libs.sandbox.guest.files.tree_apply import apply
from libs.sandbox.guest.files.tree_folders import digest_of, read_parts
from libs.sandbox.guest.workers.frame_pipes import Gone, Link
from libs.sandbox.guest.workers.removed_folders import REMOVED, removed_above, workspace_is_removed
from libs.sandbox.wire.frames import (
    ANSWER,
    CHUNK,
    EARLY,
    MAX_PAYLOAD,
    MOST_CONTENT,
    REQUEST,
    WINDOW,
    Ending,
    Fd,
    Frame,
    Kind,
    encode,
)

__all__ = ["FileWorker"]


class FileWorker:
    """Serves `file` requests until the supervisor closes the link."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._frames: Iterator[Frame] = link.frames()
        self._latest_walk = LatestWalk()
        self._do: dict[str, Callable[[int, dict[str, Any]], dict[str, Any]]] = {
            "page": lambda _, request: read_page(**request),
            "edit": lambda _, request: edit(**request),
            "glob": lambda _, request: glob(**request),
            "grep": lambda _, request: grep(**request),
            "ls": lambda _, request: ls(**request),
            "delete": lambda _, request: delete(**request),
            "read": self._read,
            "write": self._write,
            "walk": self._walk,
            "parts": self._parts,
            "apply": self._apply,
        }

    def serve(self) -> None:
        """Serve one request after the other."""
        for stream, kind, payload, _ in self._frames:
            if kind != Kind.OPEN:
                continue  # input of a request that has already failed
            request = json.loads(payload[REQUEST.size :].decode("utf-8", "surrogatepass"))
            try:
                answer = self._do[request["do"]](stream, request["arguments"])
            except OSError as error:
                if error.errno == errno.ENOENT and workspace_is_removed():
                    answer = {"error": "workspace_removed"}
                else:
                    path = request["arguments"].get("path", "")
                    if error.errno == errno.ENOENT:
                        error = _true_cause(error, path)
                    answer = {"error": _code(error, path), "detail": _detail(error, path)}
            except ValueError as error:
                answer = {"error": "invalid_path", "detail": str(error)}
            body = _encoded(answer)
            if len(body) > MAX_PAYLOAD // 2:
                body = b'{"error": "too_many", "detail": "there is more than can be told: narrow it down"}'
            self._link.send(encode(stream, Kind.END, ANSWER.pack(Ending.DONE, True) + body))

    def _next(self) -> Frame:
        for frame in self._frames:
            return frame
        raise Gone

    def _read(self, stream: int, request: dict[str, Any]) -> dict[str, Any]:
        """Send the content of a regular file."""
        with open_regular(request["path"]) as file:
            found = os.fstat(file)
            size = found.st_size
            read = hashlib.sha256()
            if size <= MOST_CONTENT:
                size = 0
                # Count, because the file may grow while it is read.
                while size <= MOST_CONTENT and (data := os.read(file, CHUNK)):
                    size += len(data)
                    read.update(data)
                    self._link.send(encode(stream, Kind.DATA, data))
            now = os.fstat(file)
            # Some file systems set the time of a file that is made shorter only after its size.
            changed = now.st_size < found.st_size
            if now.st_size == found.st_size:
                changed = now.st_mtime_ns != found.st_mtime_ns
            elif not changed and size <= MOST_CONTENT:
                # A log still begins with the bytes that were read: they were its whole content at one moment.
                changed = digest_of(file, size) != read.hexdigest()
        if changed:
            raise InUse(
                "a program changed the file while it was read: try again when the program has finished"
            )
        if size > MOST_CONTENT:
            return {
                "error": "too_large",
                "detail": f"only files up to {MOST_CONTENT} bytes leave the sandbox",
            }
        return {"size": size}

    def _write(self, stream: int, request: dict[str, Any]) -> dict[str, Any]:
        """Write `size` bytes of input to a file. `replace`: an existing file may be replaced."""
        path, size, replace = request["path"], request["size"], request["replace"]
        if os.path.basename(path) in ("", ".", ".."):
            try:
                os.stat(path)
            except FileNotFoundError:
                raise ValueError(
                    "the path names a folder: give the path of a file. Its folders are made"
                ) from None
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        if not replace:
            refuse_existing(path)
        with new_file(path, replace=replace) as file:
            for piece in self._input(stream, size):
                write_all(file, piece)
        return {"size": size}

    def _walk(self, stream: int, request: dict[str, Any]) -> dict[str, Any]:
        """Send the changes of the workspace as JSON, and a piece of the log as the errors' stream."""
        log = b"".join(self._input(stream, request["size"]))
        mark = request["mark"]
        if mark and not self._latest_walk.holds(mark):
            return {"forgotten": True}
        changes, piece, answer = self._latest_walk.walk(
            mark,
            log,
            request["most"],
            request["again"],
            request["seconds"],
            own_mounts=request["own_mounts"],
        )
        self._send(stream, _encoded(changes))
        self._send(stream, piece, Fd.ERR)
        return answer

    def _parts(self, stream: int, request: dict[str, Any]) -> dict[str, Any]:
        """Send parts of files, one after the other."""
        return {"sizes": read_parts(request["parts"], lambda data: self._send(stream, data))}

    def _apply(self, stream: int, request: dict[str, Any]) -> dict[str, Any]:
        """Change the workspace. The contents of all files are one input, in the order of the steps."""
        whole = _Input(self._input(stream, request["size"]))
        return {"left": apply(request["steps"], request["room"], whole.take)}

    def _send(self, stream: int, data: bytes, fd: int = Fd.OUT) -> None:
        for at in range(0, len(data), CHUNK):
            self._link.send(encode(stream, Kind.DATA, data[at : at + CHUNK], fd))

    def _input(self, stream: int, size: int) -> Iterator[bytes]:
        """Yield the `size` bytes of a request's input as they come."""
        granted, received = EARLY, 0
        while received < size:
            if granted - received <= WINDOW // 2 and granted < size:
                self._link.send(encode(stream, Kind.CREDIT, WINDOW.to_bytes(4, "big")))
                granted += WINDOW
            sender, kind, payload, _ = self._next()
            if sender == stream and kind == Kind.DATA:
                received += len(payload)
                yield payload


class _Input:
    """Cuts an input into contents of known sizes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def take(self, size: int) -> Iterator[bytes]:
        """Yield the next `size` bytes. The caller reads them all before the next call."""
        while size:
            data = self._rest or next(self._pieces)
            piece, self._rest = data[:size], data[size:]
            size -= len(piece)
            yield piece


def _encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _true_cause(error: OSError, path: str) -> OSError:
    """Return another error if a path is missing because a mount above was removed on the host."""
    folder = removed_above(path)
    return error if folder is None else OSError(errno.ESTALE, f"{folder}: {REMOVED}")


def _is_in_workspace(path: str) -> bool:
    """Return whether a path, or the link at this path, is in the workspace."""
    root = f"{os.path.realpath('/proc/self/cwd')}/"
    places = (os.path.realpath(path), os.path.realpath(os.path.dirname(path.rstrip("/"))))
    return any(f"{place}/".startswith(root) for place in places)


def _detail(error: OSError, path: str) -> str:
    detail = error.strerror or str(error)
    if _code(error, path) == "read_only":
        return "the whole workspace is read-only: a person must make its disk writable on the host"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{detail}: remove files there, or choose another folder (/workspace and /tmp are two disks)"
    if error.errno == errno.EFBIG:
        return f"{detail}: a file has at most {resource.getrlimit(resource.RLIMIT_FSIZE)[0]:,} bytes here"
    return detail


def _code(error: OSError, path: str) -> str:
    """Return the file tools' code for an error. See deepagents' FileOperationError."""
    if isinstance(error, FileNotFoundError):
        return "file_not_found"
    if isinstance(error, IsADirectoryError):
        return "is_directory"
    if isinstance(error, FileExistsError):
        return "exists"
    if isinstance(error, NotADirectoryError):
        return "not_a_directory"
    if error.errno == errno.ESTALE:
        return "folder_removed"
    if isinstance(error, InUse):
        return "in_use"
    if error.errno == errno.EROFS and _is_in_workspace(path):
        return "read_only" if os.statvfs("/proc/self/cwd").f_flag & os.ST_RDONLY else "permission_denied"
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return "permission_denied"
    return "failed"
