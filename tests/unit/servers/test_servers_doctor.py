"""`code-agent doctor` connects to each MCP server."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.commands.machine.doctor import check_all
from agent.parts import servers_of
from agent.settings import load_settings

PROGRAM = str(Path(__file__).parents[2] / "servers" / "mcp_servers" / "mcp_program.py")


def test_doctor_says_of_each_server_whether_it_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    programs = {"notes": [PROGRAM], "ends": ["-c", "raise SystemExit('no licence')"]}
    config: dict[str, Any] = {
        name: {"command": sys.executable, "args": arguments} for name, arguments in programs.items()
    }
    config["apart"] = {"command": "python3", "sandbox": True}
    Path(".mcp.json").write_text(json.dumps({"mcpServers": config}))
    monkeypatch.setenv("MCP_CONFIG", ".mcp.json")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")
    try:
        notes, ends, apart = (check for check in check_all() if check.name.startswith("server "))
    finally:
        if servers := servers_of(load_settings()):
            servers.close()
    assert (notes.name, notes.ok, notes.detail) == ("server notes", True, "connected: 15 functions")
    assert (ends.name, ends.ok) == ("server ends", False)
    assert "the server has ended before it was ready. Its log: " in ends.detail
    assert "docs/servers.md" in ends.hint
    assert "its sandbox cannot be used: No Docker Engine answers" in apart.detail
