"""Builds the parts of graphs and runs from the settings: computer, gateway, captures, servers, memory.

In come the settings. Out go parts that a process builds once. Each part opens its resources at its first use.
"""

from __future__ import annotations

from agent.parts.agent_backend import build_backend
from agent.parts.agents_file import AgentsFile, ShowsAgentsFile
from agent.parts.approval_rules import RuleBook, checked_rules, decision_log
from agent.parts.effects_of_calls import block_effects, command_effects
from agent.parts.mcp_servers import servers_of, servers_text, shows_servers
from agent.parts.page_stream import stream_transformers
from agent.parts.process import Parts, build_parts, graph_of, prepared, run_budget, served
from agent.parts.workspace_captures import DeferredCaptures, captures_of

__all__ = [
    "AgentsFile",
    "DeferredCaptures",
    "Parts",
    "RuleBook",
    "ShowsAgentsFile",
    "block_effects",
    "build_backend",
    "build_parts",
    "captures_of",
    "checked_rules",
    "command_effects",
    "decision_log",
    "graph_of",
    "prepared",
    "run_budget",
    "served",
    "servers_of",
    "servers_text",
    "shows_servers",
    "stream_transformers",
]
