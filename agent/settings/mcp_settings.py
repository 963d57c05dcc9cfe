"""Settings of MCP servers."""

from __future__ import annotations

from pathlib import Path

from pydantic_settings import BaseSettings, SettingsConfigDict

__all__ = ["McpSettings"]


class McpSettings(BaseSettings):
    """Part of `agent.settings.Settings`."""

    model_config = SettingsConfigDict(defer_build=True)  # only `Settings` is ever made

    mcp_config: Path | None = None
    """File with MCP servers, `.mcp.json` as other agents read it (docs/servers.md). Programs in the sandbox \
call the servers' tools as Python functions. Must be outside of the workspace. Unset: no servers."""
