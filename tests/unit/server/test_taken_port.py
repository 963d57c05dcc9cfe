"""The message about a port that a server cannot have names the reason and a port that is free."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from agent.server import occupied
from agent.server.occupied import taken_port
from libs.persistence import ThreadInUse


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


@pytest.fixture
def ending_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """A program that prints the port at which it listens, and that ends when it has been found."""
    serve = (
        "import socket, time; taken = socket.create_server(('127.0.0.1', 0));"
        "print(taken.getsockname()[1], flush=True); time.sleep(600)"
    )
    server_of = occupied._server_of
    with subprocess.Popen([sys.executable, "-c", serve], stdout=subprocess.PIPE, text=True) as program:

        def found(process: psutil.Process) -> psutil.Process:
            server = server_of(process)
            program.kill()
            program.wait()
            return server

        monkeypatch.setattr(occupied, "_server_of", found)
        yield program
        program.kill()


def test_program_that_ends_meanwhile_leaves_its_port_free(ending_server: subprocess.Popen[str]) -> None:
    assert ending_server.stdout
    assert taken_port(int(ending_server.stdout.readline())) is None
    assert ending_server.poll() is not None


def test_server_of_the_folder_may_end_meanwhile(ending_server: subprocess.Popen[str]) -> None:
    told = occupied._in_folder(ThreadInUse("the server of this folder", ending_server.pid))
    assert (
        "its process is starting or ending. Wait a few seconds, or start this one in another folder" in told
    )
