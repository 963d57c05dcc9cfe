"""An MCP server with `"sandbox": true`: it runs in a container of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.parts import servers_of
from agent.settings import load_settings
from libs.sandbox.docker import WORKSPACE_LABEL, shared_client
from libs.servers import CallFailed, Servers
from tests.support.sandboxes import IMAGE
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker

PROGRAM = Path(__file__).parents[2] / "servers" / "mcp_servers" / "evaluating_server.py"
TOKEN = "sk-evaluate-0123456789"
INSTALLED = """\
test -e env/ready || { python3 -m venv env && env/bin/pip install -q mcp-server-time && touch env/ready; } >&2
exec env/bin/mcp-server-time
"""


@contextmanager
def served(folder: Path, *command: str, **settings: bool) -> Iterator[Servers]:
    """Start the servers of a config: the command in a sandbox, and one whose program is not there."""
    config = {
        "inside": {"command": command[0], "args": command[1:], "env": {"TOKEN": TOKEN}, "sandbox": True},
        "missing": {"command": "not-there-4711", "sandbox": True},
    }
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": config}))
    made = servers_of(
        load_settings(
            None,
            workspace_dir=folder / "workspace",
            mcp_config=folder / ".mcp.json",
            sandbox_image=IMAGE,
            **settings,
        )
    )
    assert made
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("sandboxed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("OF_THE_HOST", "1")
        with served(folder, "python3", "-c", PROGRAM.read_text()) as made:
            yield made


def evaluated(servers: Servers, code: str) -> str:
    return asyncio.run(
        servers.call("inside", "evaluate", {"code": code}, lambda answer: answer.content[0].text)
    )


def containers(folder: Path) -> list[str]:
    label = f"{WORKSPACE_LABEL}={(folder / 'workspace').resolve()}"
    return [each.name or "" for each in shared_client().containers.list(filters={"label": label})]


def test_server_has_a_container_and_only_its_own_variables(servers: Servers) -> None:
    inside, missing = asyncio.run(servers.lines())
    assert "`servers.inside`: 1 function, 0 free" in inside
    assert "cannot be used now: > the server has ended before it was ready" in missing
    eventually(lambda: len(containers(Path.cwd())) == 1)
    assert evaluated(servers, "__import__('socket').gethostname()") == "sandbox"
    variables = evaluated(servers, "dict(__import__('os').environ)")
    assert TOKEN in variables
    assert "OF_THE_HOST" not in variables
    [log] = Path.cwd().glob(".code-agent/servers/*-logs/missing.log")
    assert log.read_text() == "not-there-4711 in the sandbox: No such file or directory\n"


def test_last_errors_of_a_server_that_has_closed_its_output_are_in_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with served(tmp_path, "sh", "-c", "exec <&- >&-; sleep 0.5; echo last >&2") as servers:
        assert "the server has ended before it was ready" in asyncio.run(servers.lines())[0]
        [log] = tmp_path.glob(".code-agent/servers/*-logs/inside.log")
        assert log.read_text() == "last\n"


@pytest.mark.parametrize("url", ["http://example.org", "http://servers.gateway/call"])
def test_server_reaches_only_what_the_egress_rules_allow(servers: Servers, url: str) -> None:
    code = f"__import__('subprocess').getoutput('curl -s -o /dev/null -w %{{http_code}} -d x {url}')"
    assert evaluated(servers, code) == "403"


def test_server_that_has_died_starts_again_with_its_files(servers: Servers) -> None:
    assert evaluated(servers, "open('kept', 'w').write('x')") == "1"
    with pytest.raises(CallFailed, match="ended during the call of evaluate"):
        evaluated(servers, "__import__('os')._exit(1)")
    assert evaluated(servers, "open('kept').read()") == "x"
    eventually(lambda: len(containers(Path.cwd())) == 1)


def test_large_messages_pass_both_ways(servers: Servers) -> None:
    assert evaluated(servers, f"len({'x' * 900_000!r})") == "900000"
    assert len(evaluated(servers, "'x' * 10_000_000")) == 10_000_000
    with pytest.raises(CallFailed, match="the result has over"):
        evaluated(servers, "'x' * 20_000_000")


def test_container_ends_with_the_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with served(tmp_path, "python3", "-c", PROGRAM.read_text()) as servers:
        assert evaluated(servers, "1 + 1") == "2"
        assert len(containers(tmp_path)) == 1
    assert containers(tmp_path) == []


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_server_is_installed_from_the_package_index_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with served(tmp_path, "bash", "-c", INSTALLED, egress_packages=True) as servers:
        eventually(lambda: "2 functions" in asyncio.run(servers.lines())[0], 500)
        asked = {"timezone": "Europe/Oslo"}
        assert "Europe/Oslo" in asyncio.run(servers.call("inside", "get_current_time", asked, str))
