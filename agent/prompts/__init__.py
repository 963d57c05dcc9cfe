"""The texts for models, except those of the deep agent (`agent.prompt`).

In come the settings; out come prompts, the rule about the network, examples, and descriptions of tools.
"""

from __future__ import annotations

from agent.prompts.absent_paths_text import absent_section
from agent.prompts.agents_file_text import AGENTS_FILE, agents_section
from agent.prompts.exec_catalogue import load_catalogue
from agent.prompts.network_text import network_rule
from agent.prompts.rewind_notes import arrival_note, back_note, files_note
from agent.prompts.servers_text import servers_section
from agent.prompts.skill_growth_rule import growth
from agent.prompts.tool_descriptions import SUBAGENT_DESCRIPTION, TODO_PROMPT, TODO_TOOL, TOOLS
from agent.prompts.unkept_text import unkept_note
from agent.prompts.worked_examples import example_turns

__all__ = [
    "AGENTS_FILE",
    "SUBAGENT_DESCRIPTION",
    "TODO_PROMPT",
    "TODO_TOOL",
    "TOOLS",
    "absent_section",
    "agents_section",
    "arrival_note",
    "back_note",
    "example_turns",
    "files_note",
    "growth",
    "load_catalogue",
    "network_rule",
    "servers_section",
    "unkept_note",
]
