"""Budgets in deep agents: a limit ends the run with its own status, and the thread continues."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from libs.middleware.approvals.approval_middleware import ApprovalMiddleware
from libs.middleware.budget import run_budget
from libs.middleware.budget.budget_middleware import BudgetMiddleware
from libs.middleware.budget.run_budget import Budget, Meter
from libs.models.scripted_model import ScriptedChatModel
from tests.support.gated_agents import (
    APPROVE,
    GATED,
    Metered,
    after_restart,
    agent,
    assert_answered_once,
    decide,
    questions,
    ran,
    run,
    say,
    scripted,
    task,
    thread,
)


def limited(folder: Path, model: ScriptedChatModel, budget: Budget, *, gate: bool = False) -> Any:
    middleware = [*([ApprovalMiddleware(GATED)] if gate else []), BudgetMiddleware(budget)]
    return agent(folder, model, checkpointer=InMemorySaver(), middleware=middleware)


def test_call_limit_ends_a_run_and_the_thread_continues(tmp_path: Path) -> None:
    model = scripted(
        {"go": [[run("one")], [run("two"), run("three")], "unused place", [run("four")], "done"]}
    )
    graph = limited(tmp_path, model, Budget(calls=2))
    result = graph.invoke(say("go"), thread())
    assert result["status"] == "budget_calls"
    assert ran(tmp_path) == ["one"], "nobody would read what the calls of the last reply print"
    assert "2 model calls. Nothing of the last reply was run." in result["messages"][-1].text
    assert "RUN_MAX_CALLS" in result["messages"][-1].text
    assert_answered_once(result["messages"])

    result = graph.invoke(say("go on"), thread())
    assert (result["status"], result["messages"][-1].text) == ("completed", "done")
    assert "run_budget" not in result
    assert ran(tmp_path) == ["one", "four"]


@pytest.mark.parametrize("model_class", [Metered, ScriptedChatModel])
def test_token_limit_counts_reported_or_estimated_tokens(
    tmp_path: Path, model_class: type[ScriptedChatModel]
) -> None:
    model = scripted({"go": [[run(str(n))] for n in range(20)]}, model_class)
    graph = limited(tmp_path, model, Budget(tokens=15_000))
    result = graph.invoke(say("go"), thread())
    assert result["status"] == "budget_tokens"
    assert "15,000 tokens" in result["messages"][-1].text
    assert "RUN_MAX_TOKENS" in result["messages"][-1].text
    assert_answered_once(result["messages"])
    if model_class is Metered:
        assert len(ran(tmp_path)) == 14
    else:
        assert 1 <= len(ran(tmp_path)) < 14, "the schemas of the tools are counted with every call"


class Hanging(ScriptedChatModel):
    """Hangs in a subagent and after a tool call."""

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Any:
        if messages[-1].type == "tool" or any(message.text == "sub" for message in messages):
            await asyncio.sleep(60)
        return self._generate(messages)


@pytest.mark.parametrize("turn", [[run("one"), task("sub")], [run("one")]], ids=["tool call", "model call"])
async def test_async_call_is_cancelled_at_the_time_limit(tmp_path: Path, turn: Any) -> None:
    graph = limited(tmp_path, scripted({"go": [turn, "done"], "sub": ["ok"]}, Hanging), Budget(seconds=3))
    started = time.monotonic()
    result = await graph.ainvoke(say("go"), thread())
    assert time.monotonic() - started < 30
    assert result["status"] == "budget_seconds"
    assert ran(tmp_path) == ["one"]
    assert "RUN_MAX_SECONDS" in result["messages"][-1].text
    assert "3 seconds" in result["messages"][-1].text
    cancelled = [message for message in result["messages"] if "was cancelled" in message.text]
    assert len(cancelled) == len(turn) - 1
    assert_answered_once(result["messages"])


def test_sync_call_ends_before_the_time_limit_applies(tmp_path: Path) -> None:
    slow = run("one")
    slow = slow.model_copy(update={"args": {"command": "sleep 2.5; echo one >> ran.txt"}})
    result = limited(tmp_path, scripted({"go": [[slow], "done"]}), Budget(seconds=2)).invoke(
        say("go"), thread()
    )
    assert ran(tmp_path) == ["one"]
    assert result["status"] == "budget_seconds"
    assert_answered_once(result["messages"])


def test_waiting_for_approval_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = limited(tmp_path, scripted({"go": [[run("one")], "done"]}), Budget(seconds=60), gate=True)
    assert len(questions(graph.invoke(say("go"), thread()))) == 1
    assert graph.get_state(thread()).values["status"] is None
    monkeypatch.setattr(run_budget, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + 100))
    assert graph.invoke(decide(APPROVE), thread())["status"] == "completed"
    assert ran(tmp_path) == ["one"]


def test_no_question_about_a_call_over_the_limit(tmp_path: Path) -> None:
    graph = limited(tmp_path, scripted({"go": [[run("one")], "done"]}), Budget(calls=1), gate=True)
    result = graph.invoke(say("go"), thread())
    assert questions(result) == []
    assert result["status"] == "budget_calls"
    assert_answered_once(result["messages"])


@pytest.mark.parametrize("asynchronous", [True, False])
def test_subagents_share_the_budget(tmp_path: Path, asynchronous: bool) -> None:
    model = scripted(
        {
            "left": [[run(f"left{n}")] for n in range(20)],
            "right": [[run(f"right{n}")] for n in range(20)],
            "go": [[task("left"), task("right")], "done"],
        }
    )
    graph = limited(tmp_path, model, Budget(calls=7))
    if asynchronous:
        result = asyncio.run(graph.ainvoke(say("go"), thread()))
    else:
        result = graph.invoke(say("go"), thread())
    assert result["status"] == "budget_calls"
    # One call of seven was the main agent's; of the others, only those before the limit could act.
    assert 4 <= len(ran(tmp_path)) <= 5
    assert_answered_once(result["messages"])
    assert graph.get_state(thread()).values["run_budget"]["calls"] == 7


async def test_counts_of_subagents_survive_restarts(tmp_path: Path) -> None:
    """Three calls before each question, then a new process."""
    model = scripted(
        {"sub": [[run("one")], [run("two")], [run("three")], "ok"], "go": [[task("sub")], "done"]}
    )

    async def step(given: Any) -> Any:
        middleware = [ApprovalMiddleware(GATED), BudgetMiddleware(Budget(calls=4))]
        return await after_restart(tmp_path, model, given, middleware=middleware)

    await step(say("go"))
    await step(decide(APPROVE))
    result = await step(decide(APPROVE))
    assert questions(result) == []
    assert result["status"] == "budget_calls", "1 of the main agent, 3 of the subagent"
    assert ran(tmp_path) == ["one", "two"]
    assert_answered_once(result["messages"])


def test_overlapping_work_counts_once() -> None:
    meter, begun = Meter(Budget(seconds=10)), time.monotonic()
    with meter.working(), meter.working():
        time.sleep(0.1)
    worked = time.monotonic() - begun
    time.sleep(0.1)
    assert 0.1 <= (spent := meter.spent()["seconds"]) <= worked + 0.001, "it is rounded"
    assert meter.remaining() == pytest.approx(10 - spent, abs=0.001)
