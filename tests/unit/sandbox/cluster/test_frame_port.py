"""Who may take up the frames of a container at the port of a node, with and without TLS."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest
import trustme

from libs.sandbox.cluster.actor import frame_port
from libs.sandbox.cluster.actor.frame_port import FramePort
from libs.sandbox.cluster.actor.link import Link, connect_link
from tests.support.cluster.tls_files import tls_files

NODE = "127.0.0.1"
SECONDS = 60


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_USE_TLS", raising=False)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def use_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: trustme.CA) -> Callable[[str], None]:
    """Makes this process use TLS as Ray does, with a certificate for an address."""

    def use(address: str) -> None:
        for variable, value in tls_files(tmp_path, authority, address).items():
            monkeypatch.setenv(variable, value)

    return use


class Port:
    """A port, and the connections that it has let through."""

    def __init__(self) -> None:
        self.listening = FramePort(NODE)
        self.number = self.listening.number
        self.taken: SimpleQueue[Link] = SimpleQueue()

    def token(self) -> bytes:
        return self.listening.expect(self.taken.put)

    def connect(self) -> contextlib.closing[Link]:
        return contextlib.closing(connect_link(NODE, self.number, self.token()))

    def next_taken(self) -> contextlib.closing[Link]:
        return contextlib.closing(self.taken.get(timeout=SECONDS))


@pytest.fixture
def port() -> Iterator[Port]:
    made = Port()
    yield made
    made.listening.close()


def stranger(port: Port) -> socket.socket:
    return socket.create_connection((NODE, port.number), SECONDS)


def is_closed(connection: socket.socket) -> bool:
    """Wait for the end of a connection. Raises TimeoutError if there is none."""
    try:
        return connection.recv(1) == b""
    except (ConnectionError, ssl.SSLError):
        return True


def has_ended(link: Link) -> bool:
    try:
        return link.receive() == b""
    except OSError:
        return True


def received(link: Link, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        data += link.receive()
    return bytes(data)


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
def test_much_data_goes_both_ways_at_once(port: Port, use_tls: Callable[[str], None], secure: bool) -> None:
    if secure:
        use_tls(NODE)
    size = 20_000_000
    up, down = os.urandom(size), os.urandom(size)
    with port.connect() as server, port.next_taken() as node:
        senders = [
            threading.Thread(target=link.send, args=[data], daemon=True)
            for link, data in ((server, up), (node, down))
        ]
        came: list[bool] = []
        receiver = threading.Thread(target=lambda: came.append(received(server, size) == down), daemon=True)
        for thread in (*senders, receiver):
            thread.start()
        whole = received(node, size) == up
        assert whole
        for thread in (*senders, receiver):
            thread.join(SECONDS)
        assert came.pop() is True

        node.end_sending()
        assert server.receive() == b""
        server.end()
        assert has_ended(node)


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
def test_end_of_a_connection_wakes_up_who_waits(
    port: Port, use_tls: Callable[[str], None], secure: bool
) -> None:
    if secure:
        use_tls(NODE)
    came: SimpleQueue[bytes] = SimpleQueue()
    with port.connect() as server, port.next_taken():
        receiver = threading.Thread(target=lambda: came.put(server.receive()), daemon=True)
        receiver.start()
        server.end()
        assert came.get(timeout=SECONDS) == b""
        receiver.join()


def test_token_is_valid_once(port: Port) -> None:
    token = port.token()
    first = contextlib.closing(connect_link(NODE, port.number, token))
    with first, port.next_taken(), stranger(port) as second:
        second.sendall(token)
        assert is_closed(second)
    assert port.taken.empty()


def test_wrong_and_forgotten_tokens_are_refused(port: Port) -> None:
    token = port.token()
    port.listening.forget(token)
    expected = port.token()
    for said in (token, bytes(len(expected)), expected[:-1], b"GET / HTTP/1.1\r\n\r\n"):
        with stranger(port) as other:
            other.sendall(said)
            assert is_closed(other)
    assert port.taken.empty()


def test_silent_connection_is_closed(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_port, "_STRANGER_SECONDS", 0.2)
    with stranger(port) as silent:
        assert is_closed(silent)


def test_number_of_connections_without_a_token_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_port, "_STRANGER_SECONDS", SECONDS)
    monkeypatch.setattr(frame_port, "_MOST_STRANGERS", 2)
    port = Port()
    with contextlib.closing(port.listening), stranger(port), stranger(port) as second:
        with stranger(port) as third:
            assert is_closed(third)
        second.sendall(b"no token")
        assert is_closed(second)
        with port.connect(), port.next_taken():
            pass


def test_port_accepts_connections_after_a_thread_could_not_start(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        for _ in range(frame_port._MOST_STRANGERS + 1):
            with stranger(port) as other:
                assert is_closed(other)
    with port.connect(), port.next_taken():
        pass


@pytest.mark.parametrize("shown", ["none", "of another authority"])
def test_server_needs_a_certificate_of_the_authority(
    port: Port, use_tls: Callable[[str], None], shown: str
) -> None:
    use_tls(NODE)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if shown != "none":
        trustme.CA().issue_cert(NODE).configure_cert(context)
    with contextlib.suppress(ConnectionError, ssl.SSLError), context.wrap_socket(stranger(port)) as secure:
        secure.sendall(port.token())
        assert is_closed(secure)
    assert port.taken.empty()


def test_node_needs_a_certificate_for_its_address(port: Port, use_tls: Callable[[str], None]) -> None:
    use_tls("192.0.2.1")
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        port.connect()


def test_missing_variable_is_named(
    port: Port, use_tls: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_tls(NODE)
    monkeypatch.delenv("RAY_TLS_CA_CERT")
    with pytest.raises(OSError, match="RAY_TLS_CA_CERT"):
        port.connect()


def test_connection_without_tls_is_refused_where_ray_uses_tls(
    port: Port, use_tls: Callable[[str], None]
) -> None:
    use_tls(NODE)
    with stranger(port) as other, contextlib.suppress(ConnectionError):
        other.sendall(port.token())
        while other.recv(100):  # an alert of TLS
            pass
    assert port.taken.empty()
