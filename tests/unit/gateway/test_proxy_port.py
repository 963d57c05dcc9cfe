"""The proxy's listeners inside the sandbox: a renewal drops what waits, and the next program connects."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket

import pytest

from libs.sandbox.guest.proxy_port import Outlet
from libs.sandbox.wire.frames import Decoder, Kind

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket")
"""An outlet lives as long as its process, so it closes nothing itself."""

QUEUE = 256
"""Connections that may wait at each listener."""


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def sent() -> list[bytes]:
    return []


@pytest.fixture
def poll() -> select.poll:
    return select.poll()


@pytest.fixture
def outlet(poll: select.poll, sent: list[bytes], port: int) -> Outlet:
    return Outlet(poll, sent.append, port, lambda _: 0)


def addresses(port: int) -> list[tuple[socket.AddressFamily, str | tuple[str, int]]]:
    return [(socket.AF_INET, ("127.0.0.1", port)), (socket.AF_UNIX, f"\0sandbox-proxy-{port}")]


def send_next(port: int) -> None:
    """Connect to each listener and send `next`."""
    for family, address in addresses(port):
        with socket.socket(family) as program:
            program.settimeout(10)
            program.connect(address)
            program.send(b"next")


def served(outlet: Outlet, poll: select.poll, sent: list[bytes]) -> list[bytes]:
    """Serve what is ready until nothing is. Return the data that the accepted connections have sent."""
    while ready := poll.poll(100):
        for descriptor, _ in ready:
            outlet.on_ready(descriptor)
    return [payload for _, kind, payload, _ in Decoder().feed(b"".join(sent)) if kind == Kind.DATA]


def test_renewal_drops_what_waits_and_the_next_program_connects(
    outlet: Outlet, poll: select.poll, sent: list[bytes], port: int
) -> None:
    for family, address in addresses(port):
        for _ in range(QUEUE + 50):  # the kernel would complete those over the limit later
            with socket.socket(family) as program:
                program.setblocking(False)
                program.connect_ex(address)
                with contextlib.suppress(OSError):
                    program.send(b"waits")
    outlet.renew()
    send_next(port)
    assert served(outlet, poll, sent) == [b"next", b"next"]


def test_renewal_while_a_new_worker_still_has_the_listeners(
    outlet: Outlet, poll: select.poll, sent: list[bytes], port: int
) -> None:
    worker = os.fork()
    if worker == 0:
        try:
            signal.pause()
        finally:
            os._exit(0)
    try:
        outlet.renew()
        send_next(port)
        assert served(outlet, poll, sent) == [b"next", b"next"]
    finally:
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)


def test_port_that_a_program_has_taken_comes_back_with_a_later_renewal(
    poll: select.poll, sent: list[bytes], port: int
) -> None:
    with socket.socket() as program:
        program.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        program.bind(("127.0.0.1", port))
        outlet = Outlet(poll, sent.append, port, lambda _: 0)
        socket.create_connection(("127.0.0.1", port), 10).close()
        served(outlet, poll, sent)  # the host has not ended the connection, so the outlet keeps it
        # From here on, listen(2) refuses the port to another socket, as if the program listened there.
        program.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        outlet.renew()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 10)
        assert not poll.poll(0)  # a socket that does not listen would be ready without end
        for descriptor in outlet.descriptors():
            outlet.on_ready(descriptor)  # as when it was ready in the same round of the poll
        outlet.renew()
    outlet.renew()
    send_next(port)
    assert served(outlet, poll, sent) == [b"next", b"next"]
