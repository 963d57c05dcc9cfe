"""Shows a run to a person at a terminal, and reads the person's answers.

In come the events of a run and the lines that a person types. Out go text at the terminal and decisions.
`typed_answers` (prompt_toolkit) and `terminal_plots` (Pillow) are imported by name, because they are slow to
import.
"""

from __future__ import annotations

from agent.terminal.approval_prompt import Person, ask_person
from agent.terminal.ctrl_c import STOPPED, on_ctrl_c, prompting, run_stoppable
from agent.terminal.harmless_text import harmless
from agent.terminal.json_view import JsonLines, write_result
from agent.terminal.progress import steps
from agent.terminal.rewind_view import moved_lines, point_rows
from agent.terminal.terminal_turn import exit_status, take_turn
from agent.terminal.terminal_view import APPROVALS_OFF, EventView, HumanView
from agent.terminal.thread_grants import NoSuchGrant, decision_lines, grant_lines, grants_of, rule_lines

__all__ = [
    "APPROVALS_OFF",
    "STOPPED",
    "EventView",
    "HumanView",
    "JsonLines",
    "NoSuchGrant",
    "Person",
    "ask_person",
    "decision_lines",
    "exit_status",
    "grant_lines",
    "grants_of",
    "harmless",
    "moved_lines",
    "on_ctrl_c",
    "point_rows",
    "prompting",
    "rule_lines",
    "run_stoppable",
    "steps",
    "take_turn",
    "write_result",
]
