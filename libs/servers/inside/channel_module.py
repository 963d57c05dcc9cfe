"""Carries calls of the packages `servers.<name>` to the host (standard library only).

`/servers/_channel.py` in the sandbox. The connection goes to a Unix socket of the first process, because the
kernel tells which process has opened it. So the host knows which command a call belongs to. A connection is
kept for further calls.
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import sys
import time
from typing import Any

__all__ = ["ServerError", "call"]

_HOST = "servers.gateway"
_PORT = "3128"
_FOLDER = "/results"
_REFUSED = 403
_KEPT_SECONDS = 30
"""The host closes a connection that is not used for 60 seconds."""


class ServerError(RuntimeError):
    """A call of a server's tool failed. `str(error)` says why, and what to do next."""


def call(server: str, tool: str, arguments: dict[str, Any]) -> Any:
    """Call a tool of an MCP server, and return its result.

    Returns the structured content if there is some, else the text. Several parts are a list. Pictures, sounds
    and binary files are saved in /results, and their paths are returned; beside structured content, the paths
    are printed to standard error.

    Raises:
        ServerError: the tool reports an error, the server fails, this code may not call the tool, or a file
            cannot be saved.
        TypeError, ValueError: an argument is not JSON, or holds half of a surrogate pair or a dict whose keys
            are no texts.
    """
    try:
        json.dumps(arguments, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{server}.{tool}: an argument holds half of a surrogate pair, which is not text"
        ) from None
    if not _has_text_keys(arguments):
        raise ValueError(
            f"{server}.{tool}: the keys of objects in an argument must be texts: JSON would change other keys"
        )
    asked = json.dumps({"server": server, "tool": tool, "arguments": arguments}, allow_nan=False).encode()
    status, answer = _send(asked)
    if status != 200:
        raise ServerError(f"{server}.{tool}: {answer.decode('utf-8', 'replace').strip()}")
    given = json.loads(answer)
    parts = [_value(part, f"{server}-{tool}") for part in given["content"]]
    structured = given.get("structured")
    if given["is_error"]:
        said = "; ".join(filter(None, map(str, parts)))
        if structured and not said:
            said = json.dumps(structured, ensure_ascii=False)
        raise ServerError(f"{server}.{tool}: {said or 'it failed and says no reason'}")
    if structured is not None:
        for value, part in zip(parts, given["content"], strict=True):
            if _is_file(part) and sys.stderr is not None:
                sys.stderr.write(f"{server}.{tool}: the server has also sent a file, saved as {value}\n")
        return structured
    return parts[0] if len(parts) == 1 else parts or None


def _has_text_keys(value: Any) -> bool:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if not all(isinstance(key, str) for key in each):
                return False
            waiting += each.values()
        elif isinstance(each, (list, tuple)):
            waiting += each
    return True


class _Connection:
    """HTTP/1.1 by hand: `http.client` takes longer to import than ten calls take."""

    def __init__(self) -> None:
        proxy = os.environ.get("HTTP_PROXY", "").rpartition(":")[2].strip("/")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(f"\0sandbox-proxy-{proxy if proxy.isdigit() else _PORT}")
        self._answers = self._socket.makefile("rb")
        self.used = 0.0
        """When it was used last; 0 if never."""

    def exchange(self, request: bytes) -> tuple[int, bytes, bool]:
        """Send a request. Return status and body of the answer, and whether the host takes another.

        Raises:
            OSError, LookupError, ValueError: the connection broke off.
        """
        self._socket.sendall(request)
        status = int(self._answers.readline().split()[1])
        headers = {}
        while line := self._answers.readline().strip():
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip().lower()
        length = int(headers[b"content-length"])
        body = self._answers.read(length)
        if len(body) < length:
            raise ConnectionResetError("the answer is incomplete")
        self.used = time.monotonic()
        return status, body, headers.get(b"connection") != b"close"

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


_kept: list[_Connection] = []
"""Connections for further calls of this process."""
os.register_at_fork(after_in_child=_kept.clear)


def _send(asked: bytes) -> tuple[int, bytes]:
    head = f"POST http://{_HOST}/call HTTP/1.1\r\nHost: {_HOST}\r\nContent-Length: {len(asked)}\r\n\r\n"
    request = head.encode() + asked
    try:
        while True:
            connection = _kept_or_new()
            again, open_still = connection.used > 0, False
            if again and time.monotonic() - connection.used > _KEPT_SECONDS:
                connection.close()
                continue
            try:
                status, answer, open_still = connection.exchange(request)
            finally:
                if open_still:
                    _kept.append(connection)
                else:
                    connection.close()
            # A kept connection belongs to the code that has opened it, which may have ended.
            if status != _REFUSED or not again:
                return status, answer
    except (OSError, LookupError, ValueError) as error:
        raise ServerError(f"the connection to the host broke off: {error!r}") from error


def _kept_or_new() -> _Connection:
    try:
        return _kept.pop()  # one step: threads share the list
    except IndexError:
        return _Connection()


def _is_file(part: dict[str, Any]) -> bool:
    return "data" in part and "text" not in part


def _value(part: dict[str, Any], name: str) -> Any:
    if "text" in part:
        return part["text"]
    if not _is_file(part):
        return part
    try:
        content = base64.b64decode("".join(part["data"].split()), validate=True)
    except ValueError as error:
        raise ServerError(f"{name}: the server has sent a file that is not base64: {error}") from None
    plain = re.sub(r"[^\w-]+", "_", name)[:80]
    ending = re.sub(r"\W+", "", part.get("type", "").rpartition("/")[2])[:10] or "bin"
    try:
        return _saved(content, f"{_FOLDER}/{plain}", ending)
    except OSError as error:
        raise ServerError(
            f"{name}: the server has answered, so do not just call it again: a file that it sent cannot be "
            f"saved in {_FOLDER}: {error}"
        ) from error


def _saved(content: bytes, stem: str, ending: str) -> str:
    os.makedirs(os.path.realpath(_FOLDER), exist_ok=True)  # a command may have removed what the link leads to
    number = 1
    while True:
        path = f"{stem}-{number}.{ending}"
        try:
            with open(path, "xb") as file:
                file.write(content)
            return path
        except FileExistsError:
            number += 1
