"""Servers over HTTP that answer without end, too slowly or with something else: the call is an error."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.servers import CallFailed, ServerConfig, Servers
from tests.servers.http_server import running
from tests.servers.mcp_servers.hostile_http_server import HostileServer

MEGABYTES = 400


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with running(HostileServer()) as server:
        config = ServerConfig(name="hostile", url=f"{server.url}/mcp")
        servers = Servers([config], tmp_path_factory.mktemp("hostile") / "packages")
        yield servers
        server.closing.set()
        servers.close()


def called(servers: Servers, tool: str) -> str:
    return asyncio.run(servers.call("hostile", tool, {}, str))


@pytest.mark.parametrize(
    "refusal",
    [(404, -32600, "Session not found"), (400, -32000, "Bad Request: No valid session ID provided")],
    ids=["Python's SDK", "examples of TypeScript's SDK"],
)
def test_call_is_sent_again_to_a_server_that_has_forgotten_the_session(
    tmp_path: Path, refusal: tuple[int, int, str]
) -> None:
    with running(HostileServer()) as server:
        servers = Servers([ServerConfig(name="hostile", url=f"{server.url}/mcp")], tmp_path / "packages")
        try:
            assert "fine" in called(servers, "fine")
            server.refusal = refusal
            assert "fine" in called(servers, "fine")
        finally:
            server.closing.set()
            servers.close()


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        ("endless", "the result has over 16,777,216 bytes"),
        ("endless_event", "ended during the call of endless_event"),
        ("large_error", "Server returned an error response"),
        ("compressed", "the server has compressed its answer"),
        ("redirects", "not followed"),
        ("page", "Unexpected content type: text/html"),
        ("nonsense", "Failed to parse JSON"),
        ("cut", "ended during the call of cut"),
        ("refuses", "the quota is used up"),
        ("closed", "Session not found"),
    ],
)
def test_call_ends_and_the_next_call_has_its_result(hostile: Servers, tool: str, told: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CallFailed) as raised:
        called(hostile, tool)
    assert told in str(raised.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEGABYTES * 2**10
    assert "fine" in called(hostile, "fine")


def test_result_that_does_not_fit_its_schema_is_returned_without_a_check(hostile: Servers) -> None:
    assert "aaa!" in called(hostile, "unfit")
    assert "fine" in called(hostile, "fine")


@pytest.mark.parametrize("tool", ["slow_head", "another_id"])
def test_call_without_an_answer_ends_in_time(
    hostile: Servers, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as limits:
        limits.setattr("libs.servers.server_connection.CALL_SECONDS", 0.5)
        with pytest.raises(CallFailed, match=r"has not answered within 0\.5 s"):
            called(hostile, tool)
    assert "fine" in called(hostile, "fine")
