"""The gateway's thread: starts with the first connection; if the start fails, nothing gets out."""

from __future__ import annotations

import time

import pytest

from libs.gateway import dns
from libs.gateway.gateway_thread import Gateway
from libs.gateway.proxy import Proxy
from libs.gateway.rules.allow_list import Rules


class Connection:
    """The host's end of a program's connection; records what is sent."""

    room = 1_000
    request = 0

    def __init__(self) -> None:
        self.sent = b""
        self.over = False

    def send(self, data: bytes) -> None:
        self.sent += data

    def grant(self, size: int) -> None:
        pass

    def end(self) -> None:
        self.over = True

    def abort(self) -> None:
        self.over = True


def test_failed_start_refuses_the_connection_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller is the reading thread of a sandbox, which an exception would end."""

    def none_left() -> None:
        raise OSError(24, "Too many open files")

    gateway = Gateway(lambda: Proxy(rules=Rules()))
    with monkeypatch.context() as patch:
        patch.setattr(dns, "GatewayLoop", none_left)
        assert gateway.door().connected(Connection()) is None
    assert "the gateway cannot be started, nothing gets out" in caplog.text
    assert "Too many open files" in caplog.text
    assert gateway.door().connected(Connection()) is not None
    gateway.close()
    assert gateway.door().connected(Connection()) is None


@pytest.mark.parametrize("begun", [True, False])
def test_closing_ends_open_connections(begun: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Closing is not an error, so nothing is logged."""
    gateway = Gateway(lambda: Proxy(rules=Rules()))
    connection = Connection()
    served = gateway.door().connected(connection)
    assert served is not None
    served.came(b"GET http://site.test/ HTTP/1.1\r\nHost: ")
    time.sleep(0.1 * begun)
    gateway.close()
    assert connection.over
    assert connection.sent == b""
    assert caplog.text == ""
