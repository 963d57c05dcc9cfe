"""Public MCP servers of Python's package index and of npm."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from libs.servers import ServerConfig, Servers
from tests.servers.mcp_servers.public_servers import installed_from_npm, installed_from_pypi


@contextmanager
def served(folder: Path, *configs: ServerConfig) -> Iterator[Servers]:
    servers = Servers(configs, folder / "packages")
    try:
        yield servers
    finally:
        servers.close()


def test_time_and_git_are_used_as_their_config_says(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (repository / "new.txt").write_text("new")
    programs = Path(sys.executable).parent
    configs = [ServerConfig(name=name, command=f"{programs}/mcp-server-{name}") for name in ("time", "git")]

    async def use(servers: Servers) -> None:
        time, git = await servers.lines()
        assert "`servers.time`: 2 functions" in time
        assert "`servers.git`: 12 functions" in git
        assert "new.txt" in await servers.call("git", "git_status", {"repo_path": str(repository)}, str)
        assert await servers.is_free("git", "git_status")
        assert not await servers.is_free("git", "git_commit")
        asked = {"timezone": "Europe/Oslo"}
        assert "Europe/Oslo" in await servers.call("time", "get_current_time", asked, str)

    with served(tmp_path, *configs) as servers:
        asyncio.run(use(servers))


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_servers_of_npm_serve_tools_resources_and_prompts(tmp_path: Path) -> None:
    programs = installed_from_npm(tmp_path / "npm", "everything", "filesystem", "memory")
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "milk.md").write_text("buy milk")
    configs = [
        ServerConfig(name="everything", command=f"{programs}/mcp-server-everything"),
        ServerConfig(name="filesystem", command=f"{programs}/mcp-server-filesystem", args=(str(notes),)),
        ServerConfig(
            name="memory",
            command=f"{programs}/mcp-server-memory",
            env=(("MEMORY_FILE_PATH", str(tmp_path / "memory.jsonl")),),
        ),
    ]
    milk = {"entities": [{"name": "milk", "entityType": "food", "observations": ["white"]}]}

    async def use(servers: Servers) -> None:
        assert all(" functions, " in line for line in await servers.lines())
        assert "Echo: hi" in await servers.call("everything", "echo", {"message": "hi"}, str)
        listed = await servers.call("everything", "resources/list", {}, lambda answer: answer)
        assert isinstance(listed, list)
        read = {"uri": next(each["uri"] for each in listed if "uri" in each)}
        assert "contents=[" in await servers.call("everything", "resources/read", read, str)
        prompt = {"name": "simple-prompt", "arguments": {}}
        assert "role='user'" in await servers.call("everything", "prompts/get", prompt, str)
        note = {"path": str(notes / "milk.md")}
        assert "buy milk" in await servers.call("filesystem", "read_text_file", note, str)
        assert "milk" in await servers.call("memory", "create_entities", milk, str)
        assert "white" in await servers.call("memory", "read_graph", {}, str)
        for server, tool in (("filesystem", "read_text_file"), ("memory", "read_graph")):
            assert await servers.is_free(server, tool)
        for server, tool in (("filesystem", "write_file"), ("memory", "create_entities")):
            assert not await servers.is_free(server, tool)

    with served(tmp_path, *configs) as servers:
        asyncio.run(use(servers))


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_fetch_is_not_free_although_it_only_reads(tmp_path: Path) -> None:
    programs = installed_from_pypi(tmp_path / "fetch", "mcp-server-fetch")

    async def use(servers: Servers) -> None:
        [line] = await servers.lines()
        assert "`servers.fetch`: 2 functions, 0 free" in line
        assert not await servers.is_free("fetch", "fetch")

    with served(tmp_path, ServerConfig(name="fetch", command=f"{programs}/mcp-server-fetch")) as servers:
        asyncio.run(use(servers))
