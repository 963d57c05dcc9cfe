"""The gateway's thread: it starts with the first connection, and where it cannot, nothing gets out."""

from __future__ import annotations

import time

import pytest

from libs.gateway import gateway as module
from libs.gateway.gateway import Gateway
from libs.gateway.names import GatewayLoop
from libs.gateway.proxy import Proxy
from libs.gateway.rules import Rules


class Connection:
    """The host's end of a program's connection; keeps what was done with it."""

    room = 1_000

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


def test_what_cannot_be_started_is_refused_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is asked by the thread that reads for a sandbox: an error of its own would end that."""

    def none_left() -> GatewayLoop:
        raise OSError(24, "Too many open files")

    gateway = Gateway(lambda: Proxy(rules=Rules()))
    with monkeypatch.context() as patch:
        patch.setattr(module, "GatewayLoop", none_left)
        assert gateway.door().connected(Connection()) is None
    assert "the gateway cannot be started, nothing gets out" in caplog.text
    assert "Too many open files" in caplog.text
    assert gateway.door().connected(Connection()) is not None
    gateway.close()
    assert gateway.door().connected(Connection()) is None


@pytest.mark.parametrize("begun", [True, False])
def test_closing_ends_what_is_under_way(begun: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Without a word in the log of this program: nothing has gone wrong."""
    gateway = Gateway(lambda: Proxy(rules=Rules()))
    connection = Connection()
    served = gateway.door().connected(connection)
    assert served is not None
    served.came(b"GET http://site.test/ HTTP/1.1\r\nHost: ")
    time.sleep(0.3 * begun)
    gateway.close()
    assert connection.over
    assert connection.sent == b""
    assert caplog.text == ""
