"""Runs any agent for every entry point: starts and resumes runs, yields their events, returns the result.

In come a thread, a task or decisions, and the agents' graphs. Out go events during the run, and its result.
"""

from __future__ import annotations

from agent.run.agent_run import Run
from agent.run.agents import GRAPH_IDS, AgentName, AgentRefused, agent_of, model_in, named_in
from agent.run.driver import GRACE, Decide, LeftPending, carry_out
from agent.run.expected_errors import complaint, explained
from agent.run.run_events import (
    Approval,
    CommandEnded,
    CommandStarted,
    Event,
    FileMade,
    Message,
    Output,
    Result,
    SecretSuspected,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from agent.run.run_steps import run_result, steps_taken
from agent.run.runtime import Runtime, open_runtime
from agent.run.thread_points import ThreadPoints
from agent.run.turn_points import Point, ThreadGone, WrongPoint

__all__ = [
    "GRACE",
    "GRAPH_IDS",
    "AgentName",
    "AgentRefused",
    "Approval",
    "CommandEnded",
    "CommandStarted",
    "Decide",
    "Event",
    "FileMade",
    "LeftPending",
    "Message",
    "Output",
    "Point",
    "Result",
    "Run",
    "Runtime",
    "SecretSuspected",
    "TextDelta",
    "ThreadGone",
    "ThreadPoints",
    "ToolEnded",
    "ToolStarted",
    "WrongPoint",
    "agent_of",
    "carry_out",
    "complaint",
    "explained",
    "model_in",
    "named_in",
    "open_runtime",
    "run_result",
    "steps_taken",
]
