"""Agents use MCP servers in sandboxes on a node as on the host: packages travel, calls go to the server."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from agent.settings import Settings, load_settings
from tests.integration.mcp_servers.test_server_agents import (
    folder,
    own_place,
    test_call_ends_at_the_server_with_its_command,
    test_code_block_agent_declares_in_the_block,
    test_deep_agent_calls_what_is_free_or_declared,
)
from tests.support.cluster.ray_cluster import Cluster as Machines
from tests.support.sandboxes import IMAGE

__all__ = [
    "folder",
    "own_place",
    "test_call_ends_at_the_server_with_its_command",
    "test_code_block_agent_declares_in_the_block",
    "test_deep_agent_calls_what_is_free_or_declared",
]


@pytest.fixture(scope="module")
def settings_of(folder: Path, shared_cluster: Machines) -> Callable[..., Settings]:
    shared_cluster.repair()
    return partial(
        load_settings,
        None,
        workspace_dir=folder / "workspace",
        mcp_config=folder / ".mcp.json",
        sandbox_image=IMAGE,
        sandbox_cluster=shared_cluster.address,
        sandbox_scope="thread",
        sandbox_warm=0,
    )
