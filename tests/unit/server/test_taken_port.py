"""The message about a port that a server cannot have names the reason and a port that is free."""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

import pytest

from agent.server import occupied
from agent.server.occupied import taken_port


def test_free_port_is_named_when_the_highest_port_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(occupied, "_HIGHEST_PORT", port)
        told = taken_port(port)
    assert told
    assert told.startswith(f"Port {port} is taken by process {os.getpid()} (")
    assert 1024 <= int(told.partition("PORT=")[2].partition("`")[0]) < port


def test_port_that_this_user_may_not_have_is_not_called_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(socket.socket):
        def bind(self, address: Any) -> None:
            if address[1] < 1024:
                raise PermissionError(errno.EACCES, "Permission denied")
            super().bind(address)

    monkeypatch.setattr(socket, "socket", Refusing)
    told = taken_port(80)
    assert told
    assert told.startswith(
        "Port 80 cannot be used: Permission denied. To start the server, choose another port: "
    )
