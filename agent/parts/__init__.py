"""Builds the parts of graphs and runs from the settings: model, computer, gateway, memory.

In come the settings. Out go parts that a process builds once. Each part opens its resources at its first use.
"""

from __future__ import annotations

from agent.parts.agent_backend import build_backend
from agent.parts.agents_file import AgentsFile, ShowsAgentsFile
from agent.parts.approval_rules import RuleBook, checked_rules, decision_log
from agent.parts.chat_model import (
    RUNTIME_COMMAND,
    RealModel,
    build_model,
    calls_tools,
    is_local,
    name_of,
    shown_name,
)
from agent.parts.effects_of_calls import block_effects, command_effects
from agent.parts.mcp_servers import servers_of, servers_text, shows_servers
from agent.parts.page_stream import stream_transformers
from agent.parts.process import Parts, build_parts, graph_of, prepared, run_budget, served
from agent.parts.provider_model import CHOICES, unused_keys
from agent.parts.workspace_captures import DeferredCaptures, captures_of

__all__ = [
    "CHOICES",
    "RUNTIME_COMMAND",
    "AgentsFile",
    "DeferredCaptures",
    "Parts",
    "RealModel",
    "RuleBook",
    "ShowsAgentsFile",
    "block_effects",
    "build_backend",
    "build_model",
    "build_parts",
    "calls_tools",
    "captures_of",
    "checked_rules",
    "command_effects",
    "decision_log",
    "graph_of",
    "is_local",
    "name_of",
    "prepared",
    "run_budget",
    "served",
    "servers_of",
    "servers_text",
    "shown_name",
    "shows_servers",
    "stream_transformers",
    "unused_keys",
]
