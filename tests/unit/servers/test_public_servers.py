"""Public MCP servers of Python's package index."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from libs.servers import ServerConfig, Servers


def test_time_and_git_are_used_as_their_config_says(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (repository / "new.txt").write_text("new")
    programs = Path(sys.executable).parent
    configs = [ServerConfig(name=name, command=f"{programs}/mcp-server-{name}") for name in ("time", "git")]
    servers = Servers(configs, tmp_path / "packages")

    async def use() -> None:
        time, git = await servers.lines()
        assert "`servers.time`: 2 functions" in time
        assert "`servers.git`: 12 functions" in git
        status = await servers.call("git", "git_status", {"repo_path": str(repository)}, str)
        assert "new.txt" in status
        assert await servers.is_free("git", "git_status")
        assert not await servers.is_free("git", "git_commit")
        now = await servers.call("time", "get_current_time", {"timezone": "Europe/Oslo"}, str)
        assert "Europe/Oslo" in now

    try:
        asyncio.run(use())
    finally:
        servers.close()
