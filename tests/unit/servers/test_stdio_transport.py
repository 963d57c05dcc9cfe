"""Servers that flood their client: memory is bounded, and other calls go on."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

import pytest

from libs.redaction import SecretFilter
from libs.servers import CallFailed, ServerConfig, Servers
from libs.servers.server_log import ServerLog
from libs.servers.stdio_transport import Pipes, program_streams

PROGRAM = str(Path(__file__).parents[2] / "servers" / "mcp_servers" / "flooding_server.py")


@pytest.fixture(scope="module", params=["first", "last"])
def flooding(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Servers that write the id of an answer first, as Python's SDK, or last, as TypeScript's SDK."""
    config = ServerConfig(name="flood", command=sys.executable, args=(PROGRAM, request.param))
    servers = Servers([config], tmp_path_factory.mktemp("flood") / "packages")
    yield servers
    servers.close()


def called(servers: Servers, tool: str) -> str:
    return asyncio.run(servers.call("flood", tool, {}, str))


def test_too_large_an_answer_is_an_error_of_its_call_alone(flooding: Servers) -> None:
    async def both() -> list[str | BaseException]:
        calls = [flooding.call("flood", tool, {}, str) for tool in ("large", "fine")]
        return await asyncio.gather(*calls, return_exceptions=True)

    large, fine = asyncio.run(both())
    assert isinstance(large, CallFailed)
    assert "the result has over 16,777,216 bytes: ask the server for a part of it" in str(large)
    assert "fine" in str(fine)


@pytest.mark.parametrize("tool", ["errors", "notifications", "nonsense", "log", "another_id"])
def test_flood_and_nonsense_do_not_disturb_the_call(flooding: Servers, tool: str) -> None:
    assert "fine" in called(flooding, tool)


@pytest.mark.parametrize("tool", ["half", "nested", "unfit"])
def test_answer_that_cannot_be_read_is_an_error_of_its_call(flooding: Servers, tool: str) -> None:
    with pytest.raises(CallFailed, match="the server has answered, but the answer cannot be read"):
        called(flooding, tool)
    assert "fine" in called(flooding, "fine")


def test_error_about_a_session_of_its_own_does_not_end_a_program(flooding: Servers) -> None:
    with pytest.raises(CallFailed, match="Session not found"):
        called(flooding, "no_session")


def test_line_without_end_is_an_error_of_its_call(flooding: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as limits:
        limits.setattr("libs.servers.server_connection.CALL_SECONDS", 0.5)
        limits.setattr("libs.servers.server_connection.PROBE_SECONDS", 0.5)
        before = getrusage(RUSAGE_SELF).ru_maxrss
        with pytest.raises(CallFailed, match=r"endless has not answered within 0\.5 s"):
            called(flooding, "endless")
        assert getrusage(RUSAGE_SELF).ru_maxrss - before < 200 * 2**10
    assert "fine" in called(flooding, "fine")


def test_server_that_reads_no_answer_to_its_requests_is_ended(flooding: Servers) -> None:
    with pytest.raises(CallFailed, match="ended during the call of requests"):
        called(flooding, "requests")
    assert "fine" in called(flooding, "fine")


def test_log_of_a_server_is_bounded(flooding: Servers, tmp_path: Path) -> None:
    config = ServerConfig(name="flood", command=sys.executable, args=(PROGRAM,))
    servers = Servers([config], tmp_path / "packages")
    try:
        assert "fine" in called(servers, "errors")
    finally:
        servers.close()
    assert 0 < (tmp_path / "packages-logs" / "flood.log").stat().st_size <= 4 * 2**20


async def test_log_has_the_last_words_of_a_program_that_was_ended(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    opened: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def running() -> AsyncIterator[Pipes]:
        reader, writer = await asyncio.open_connection(sock=ours)
        yield Pipes(writer, asyncio.StreamReader(), reader)
        theirs.sendall(b"last words")
        theirs.close()
        opened.append(writer)

    log = ServerLog(tmp_path / "logs" / "ends.log", SecretFilter({}))
    async with program_streams(running(), asyncio.Event(), log):
        pass
    opened.pop().close()
    assert log.path.read_text() == "last words"
