"""Carries calls of the packages `servers.<name>` to the host (standard library only).

`/servers/_channel.py` in the sandbox. The connection goes to a Unix socket of the first process, because the
kernel tells which process has opened it. So the host knows which command a call belongs to.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import socket
from typing import Any

__all__ = ["ServerError", "call"]

_HOST = "servers.gateway"
_PORT = "3128"
_FOLDER = "/results"


class ServerError(RuntimeError):
    """A call of a server's tool failed. `str(error)` says why, and what to do next."""


def call(server: str, tool: str, arguments: dict[str, Any]) -> Any:
    """Call a tool of an MCP server, and return its result.

    Returns the structured content if there is some, else the text. Several parts are a list. Pictures, sounds
    and binary files are saved in /results, and their paths are returned.

    Raises:
        ServerError: the tool reports an error, the server fails, or this code may not call the tool.
        TypeError, ValueError: an argument is not JSON.
    """
    asked = json.dumps({"server": server, "tool": tool, "arguments": arguments}, allow_nan=False).encode()
    status, answer = _send(asked)
    if status != 200:
        raise ServerError(f"{server}.{tool}: {answer.decode('utf-8', 'replace').strip()}")
    given = json.loads(answer)
    parts = [_value(part, f"{server}-{tool}") for part in given["content"]]
    if given["is_error"]:
        raise ServerError(f"{server}.{tool}: {'; '.join(map(str, parts)) or 'it failed and says no reason'}")
    if given.get("structured") is not None:
        return given["structured"]
    return parts[0] if len(parts) == 1 else parts or None


class _Connection(http.client.HTTPConnection):
    def connect(self) -> None:
        proxy = os.environ.get("HTTP_PROXY", "").rpartition(":")[2].strip("/")
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(f"\0sandbox-proxy-{proxy if proxy.isdigit() else _PORT}")


def _send(asked: bytes) -> tuple[int, bytes]:
    connection = _Connection(_HOST)
    headers = {"Host": _HOST, "Content-Type": "application/json", "Connection": "close"}
    try:
        connection.request("POST", f"http://{_HOST}/call", asked, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise ServerError(f"the connection to the host broke off: {error}") from error
    finally:
        connection.close()


def _value(part: dict[str, Any], name: str) -> Any:
    if "text" in part:
        return part["text"]
    if "data" not in part:
        return part
    content = base64.b64decode(part["data"])
    plain = re.sub(r"[^\w-]+", "_", name)[:80]
    ending = re.sub(r"\W+", "", part.get("type", "").rpartition("/")[2])[:10] or "bin"
    os.makedirs(_FOLDER, exist_ok=True)
    number = 1
    while True:
        path = f"{_FOLDER}/{plain}-{number}.{ending}"
        try:
            with open(path, "xb") as file:
                file.write(content)
            return path
        except FileExistsError:
            number += 1
