"""How a package in the sandbox reads the answers of the host."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from libs.servers.inside.channel_module import ServerError, call


@contextmanager
def answered(monkeypatch: pytest.MonkeyPatch, **answer: Any) -> Iterator[None]:
    """Answer one call, as the gateway does."""
    body = json.dumps({"content": [], "structured": None, "is_error": False, **answer}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{os.getpid()}")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0sandbox-proxy-{os.getpid()}")
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(2**16)
                connection.sendall(head.encode() + body)

        server = threading.Thread(target=serve)
        server.start()
        yield
        server.join()


def test_file_that_is_not_base64_is_a_server_error(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = {"data": "a", "type": "image/png"}
    with (
        answered(monkeypatch, content=[picture]),
        pytest.raises(ServerError, match="notes-cover: the server has sent a file that is not base64"),
    ):
        call("notes", "cover", {})


def test_half_of_a_surrogate_pair_is_named() -> None:
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        call("notes", "words", {"text": "\udcff"})
