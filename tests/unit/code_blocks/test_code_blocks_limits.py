"""Limits and budgets end a run of the code-block agent, and its last message says so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.outputs import ChatGenerationChunk
from langgraph.checkpoint.memory import InMemorySaver

from libs.code_blocks.block_feedback import OUT_OF_TIME
from libs.middleware.budget.run_budget import Budget
from libs.models.scripted_model import ScriptedChatModel
from tests.support.code_loops import (
    TASK,
    bash,
    looping,
    outputs,
    playing,
    python,
    roles,
    run,
    said_to_the_model,
)
from tests.support.gated_agents import Metered


def test_run_ends_after_max_steps_and_the_thread_continues(tmp_path: Path) -> None:
    model = playing(bash("echo 1"), bash("echo 2"), "unused place", bash("echo 4"), "Done.")
    with looping(tmp_path, model, max_steps=2, checkpointer=InMemorySaver()) as graph:
        config: Any = {"configurable": {"thread_id": "1"}}
        result = graph.invoke({"messages": [HumanMessage(TASK)]}, config)
        assert (result["status"], outputs(result)) == ("max_steps", ["1", "2"])
        assert "2 steps are used up" in result["messages"][-1].text
        assert "```output\n2\n```" in result["messages"][-1].text
        assert roles(result["messages"]) == ["human", "ai", "human", "ai", "human", "ai"]
        result = graph.invoke({"messages": [HumanMessage("go on")]}, config)
    assert (result["status"], outputs(result)) == ("completed", ["4"])


def test_run_ends_after_the_same_failure_three_times(tmp_path: Path) -> None:
    # The address of the object is different in each error.
    result = run(tmp_path, *[python("thing = object()\nraise ValueError(thing)")] * 4)
    assert (result["status"], len(result["executions"])) == ("error", 3)
    first, second, _ = said_to_the_model(result)
    assert "exactly this code before" not in first
    assert "exactly this code before, and it failed before" in second
    assert "same code failed three times" in result["messages"][-1].text


def test_different_errors_of_the_same_code_do_not_end_the_run(tmp_path: Path) -> None:
    # As a program that runs tests: the last line is the same for each error.
    run_it = bash("python3 program.py || { echo FAILED; exit 1; }")
    steps = [bash(f"echo 'raise ValueError({number})' > program.py") for number in range(4)]
    mended = bash("echo 'print(7)' > program.py")
    replies = [reply for step in steps for reply in (step, run_it)]
    result = run(tmp_path, *replies, mended, run_it, "It prints 7.", max_steps=20)
    assert (result["status"], outputs(result)[-1]) == ("completed", "7")
    assert not any("exactly this code before" in said for said in said_to_the_model(result))


@pytest.mark.parametrize("model", [Metered, ScriptedChatModel])
def test_token_budget_counts_reported_or_estimated_tokens(
    tmp_path: Path, model: type[ScriptedChatModel]
) -> None:
    replies = [bash(f"echo {n}; : {'x' * 2_000}") for n in range(9)]
    with looping(tmp_path, playing(*replies, model=model), budget=Budget(tokens=5_000)) as graph:
        result = graph.invoke({"messages": [HumanMessage(TASK)]})
    assert result["status"] == "budget_tokens"
    assert 0 < len(result["executions"]) < 8
    assert "RUN_MAX_TOKENS" in result["messages"][-1].text


def test_call_budget_ends_a_run(tmp_path: Path) -> None:
    result = run(tmp_path, bash("echo a"), bash("echo b"), budget=Budget(calls=1))
    assert (result["status"], outputs(result)) == ("budget_calls", []), "nobody would read what it prints"
    assert "RUN_MAX_CALLS" in result["messages"][-1].text
    assert "Nothing of the last reply was run." in result["messages"][-1].text
    assert roles(result["messages"]) == ["human", "ai"]


@pytest.mark.thorough
async def test_time_budget_ends_a_block_and_the_run(tmp_path: Path) -> None:
    with looping(tmp_path, playing(bash("echo a; sleep 60; echo b")), budget=Budget(seconds=6)) as graph:
        begun = time.monotonic()
        result = await graph.ainvoke({"messages": [HumanMessage(TASK)]})
    assert time.monotonic() - begun < 40
    assert (result["status"], [e["exit_code"] for e in result["executions"]]) == ("budget_seconds", [124])
    assert said_to_the_model(result) == [
        f"The bash block failed with exit code 124:\n```output\n{OUT_OF_TIME}\n```"
    ], "the code is not to blame"
    assert "RUN_MAX_SECONDS" in result["messages"][-1].text


class SlowModel(ScriptedChatModel):
    """Takes a minute."""

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        await asyncio.sleep(60)
        for chunk in self._stream(*args, **kwargs):
            yield chunk


def test_time_budget_ends_a_model_call(tmp_path: Path) -> None:
    with looping(tmp_path, playing("x", model=SlowModel), budget=Budget(seconds=0.2)) as graph:
        result = graph.invoke({"messages": [HumanMessage(TASK)]})
    assert result["status"] == "budget_seconds"
