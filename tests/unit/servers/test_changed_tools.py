"""A server that has other tools than before: during its life, and after a new start."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.servers import Answer, CallFailed, ServerConfig, Servers
from tests.support.waiting import eventually

PROGRAM = str(Path(__file__).parents[2] / "servers" / "mcp_servers" / "evaluating_server.py")
START = 'exec "$0" "$1" $(cat names 2>/dev/null)'
RENAME = "setattr(__import__('__main__'), 'NAMES', ['other'])"
CHANGED = """print('{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}')"""
RESTART_WITH_OTHERS = "open('names', 'w').write('other'), __import__('os')._exit(0)"


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    arguments = ("-c", START, sys.executable, PROGRAM)
    made = Servers(
        [ServerConfig(name="changing", command="sh", args=arguments, cwd=str(tmp_path))],
        tmp_path / "packages",
    )
    yield made
    made.close()


def text(answer: Answer) -> str:
    return str(answer.content[0].text)  # type: ignore[union-attr]


def evaluated(servers: Servers, tool: str, code: str) -> str:
    return asyncio.run(servers.call("changing", tool, {"code": code}, text))


def has_other(servers: Servers) -> bool:
    try:
        return evaluated(servers, "other", "1 + 1") == "2"
    except CallFailed:  # the new list has not been read yet
        return False


def test_tools_that_change_during_calls_change_the_package(servers: Servers, tmp_path: Path) -> None:
    async def at_once() -> list[str]:
        codes = [f"{n}, {CHANGED}, {RENAME}" if n == 10 else str(n) for n in range(20)]
        calls = [servers.call("changing", "evaluate", {"code": code}, text) for code in codes]
        return await asyncio.gather(*calls)

    assert [each.lstrip("(").partition(",")[0] for each in asyncio.run(at_once())] == [
        str(n) for n in range(20)
    ]
    eventually(lambda: has_other(servers))
    with pytest.raises(CallFailed, match="the server has no such tool now; it has other"):
        evaluated(servers, "evaluate", "1")
    source = (tmp_path / "packages" / "changing" / "_tools.py").read_text()
    assert "def other(" in source
    assert "def evaluate(" not in source


CHANGES_WHILE_READ = """
import json, sys
names = ["first"]
answer = lambda id, **result: print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
for line in sys.stdin:
    match json.loads(line):
        case {"method": "initialize", "id": id, "params": {"protocolVersion": version}}:
            about = {"name": "burst", "version": "1"}
            answer(id, protocolVersion=version, capabilities={"tools": {}, "prompts": {}}, serverInfo=about)
        case {"method": "tools/list", "id": id}:
            answer(id, tools=[{"name": name, "inputSchema": {"type": "object"}} for name in names])
        case {"method": "prompts/list", "id": id}:
            if names == ["first"]:
                names = ["second"]
                print('{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}')
            answer(id, prompts=[])
        case {"id": id}:
            error = {"code": -32601, "message": "unknown"}
            print(json.dumps({"jsonrpc": "2.0", "id": id, "error": error}), flush=True)
"""


def test_tools_that_change_while_the_lists_are_read_are_read_again(tmp_path: Path) -> None:
    config = ServerConfig(name="burst", command=sys.executable, args=("-c", CHANGES_WHILE_READ))
    burst = Servers([config], tmp_path / "packages")
    try:
        asyncio.run(burst.lines())
    finally:
        burst.close()
    assert "def second(" in (tmp_path / "packages" / "burst" / "_tools.py").read_text()


def test_server_that_comes_back_with_other_tools_has_another_package(servers: Servers) -> None:
    assert evaluated(servers, "evaluate", "1 + 1") == "2"
    with pytest.raises(CallFailed, match="ended during the call of evaluate"):
        evaluated(servers, "evaluate", RESTART_WITH_OTHERS)
    assert evaluated(servers, "evaluate", "'a stale package calls it'") == "a stale package calls it"
    eventually(lambda: has_other(servers))
    with pytest.raises(CallFailed, match="the server has no such tool now; it has other"):
        evaluated(servers, "evaluate", "1")
