"""Budgets in real deep agents: a limit ends the run with its own status, and the thread goes on."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from gated_agents import (
    APPROVE,
    GATED,
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
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from libs.middleware.approval_middleware import ApprovalMiddleware
from libs.middleware.budget import Budget, Meter
from libs.middleware.budget_middleware import BudgetMiddleware
from libs.models.scripted import ScriptedChatModel


def limited(
    folder: Path, model: ScriptedChatModel, budget: Budget, *, gate: bool = False, saver: Any = None
) -> Any:
    middleware = [*([ApprovalMiddleware(GATED)] if gate else []), BudgetMiddleware(budget)]
    return agent(folder, model, checkpointer=saver or InMemorySaver(), middleware=middleware)


class Metered(ScriptedChatModel):
    """Reports 1,000 tokens for every call."""

    def _next(self, messages: Any) -> AIMessage:
        usage = {"input_tokens": 900, "output_tokens": 100, "total_tokens": 1000}
        return super()._next(messages).model_copy(update={"usage_metadata": usage})


class Slow(ScriptedChatModel):
    """Takes a second for its second reply."""

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Any:
        if any(isinstance(message, AIMessage) for message in messages):
            await asyncio.sleep(1)
        return self._generate(messages)


def test_a_run_within_its_budget_is_completed(tmp_path: Path) -> None:
    graph = limited(tmp_path, scripted({"go": [[run("one")], "done"]}), Budget(calls=2))
    result = graph.invoke(say("go"), thread())
    assert (result["status"], result["messages"][-1].text) == ("completed", "done")
    assert "run_budget" not in result


def test_calls_end_a_run_and_the_thread_goes_on(tmp_path: Path) -> None:
    model = scripted(
        {"go": [[run("one")], [run("two"), run("three")], "unused place", [run("four")], "done"]}
    )
    graph = limited(tmp_path, model, Budget(calls=2))
    result = graph.invoke(say("go"), thread())
    assert result["status"] == "budget_calls"
    assert ran(tmp_path) == ["one"], "nobody would read what the calls of the last reply print"
    assert "2 model calls" in result["messages"][-1].text
    assert "RUN_MAX_CALLS" in result["messages"][-1].text
    assert_answered_once(result["messages"])

    result = graph.invoke(say("go on"), thread())
    assert (result["status"], result["messages"][-1].text) == ("completed", "done")
    assert ran(tmp_path) == ["one", "four"]


@pytest.mark.parametrize("model_class", [Metered, ScriptedChatModel])
def test_tokens_end_a_run_reported_or_estimated(tmp_path: Path, model_class: type[ScriptedChatModel]) -> None:
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


async def test_a_tool_call_is_cut_when_the_seconds_are_used_up(tmp_path: Path) -> None:
    graph = limited(
        tmp_path,
        scripted({"go": [[run("one"), task("sub")], "done"], "sub": ["ok"]}, Hanging),
        Budget(seconds=0.5),
    )
    started = time.monotonic()
    result = await graph.ainvoke(say("go"), thread())
    assert time.monotonic() - started < 5
    assert result["status"] == "budget_seconds"
    assert "RUN_MAX_SECONDS" in result["messages"][-1].text
    assert any("was cancelled" in message.text for message in result["messages"] if message.type == "tool")
    assert_answered_once(result["messages"])


class Hanging(ScriptedChatModel):
    """Never answers a subagent."""

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Any:
        if any(message.type == "human" and message.text == "sub" for message in messages):
            await asyncio.sleep(60)
        return self._generate(messages)


async def test_a_model_call_is_cut_when_the_seconds_are_used_up(tmp_path: Path) -> None:
    model = scripted({"go": [[run("one")], "done"]}, Slow)
    result = await limited(tmp_path, model, Budget(seconds=0.6)).ainvoke(say("go"), thread())
    assert result["status"] == "budget_seconds"
    assert ran(tmp_path) == ["one"]
    assert "0.6 seconds" in result["messages"][-1].text


def test_in_the_sync_path_a_call_ends_before_the_run_does(tmp_path: Path) -> None:
    slow = run("one")
    slow = slow.model_copy(update={"args": {"command": "sleep 0.4; echo one >> ran.txt"}})
    result = limited(tmp_path, scripted({"go": [[slow], "done"]}), Budget(seconds=0.3)).invoke(
        say("go"), thread()
    )
    assert ran(tmp_path) == ["one"]
    assert result["status"] == "budget_seconds"
    assert_answered_once(result["messages"])


def test_a_persons_time_does_not_count(tmp_path: Path) -> None:
    graph = limited(tmp_path, scripted({"go": [[run("one")], "done"]}), Budget(seconds=0.5), gate=True)
    assert len(questions(graph.invoke(say("go"), thread()))) == 1
    assert graph.get_state(thread()).values["status"] is None
    time.sleep(0.7)
    assert graph.invoke(decide(APPROVE), thread())["status"] == "completed"
    assert ran(tmp_path) == ["one"]


def test_nobody_is_asked_about_a_call_that_cannot_run(tmp_path: Path) -> None:
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


async def test_counts_survive_restarts_in_subagents_too(tmp_path: Path) -> None:
    """Three calls before each question, then a new process."""
    model = scripted(
        {"sub": [[run("one")], [run("two")], [run("three")], "ok"], "go": [[task("sub")], "done"]}
    )

    async def step(given: Any, calls: int = 4) -> Any:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
            graph = limited(tmp_path, model, Budget(calls=calls), gate=True, saver=saver)
            return await graph.ainvoke(given, thread())

    await step(say("go"))
    await step(decide(APPROVE))
    result = await step(decide(APPROVE))
    assert questions(result) == []
    assert result["status"] == "budget_calls", "1 of the main agent, 3 of the subagent"
    assert ran(tmp_path) == ["one", "two"]
    assert_answered_once(result["messages"])


def test_overlapping_work_counts_once_and_waiting_not_at_all() -> None:
    meter = Meter(Budget(seconds=10))
    with meter.working(), meter.working():
        time.sleep(0.1)
    time.sleep(0.1)
    assert 0.1 <= meter.spent()["seconds"] < 0.15
    assert meter.remaining() == pytest.approx(9.9, abs=0.05)


def test_a_subagent_adds_to_the_agent_above_once() -> None:
    meter = Meter(Budget(calls=5))
    earlier = {"run": "a", "calls": 2, "seconds": 1.0, "tokens": 10, "ended": None}
    assert meter.child(earlier) is meter.child(earlier)
    meter.child(earlier).take_call()
    meter.child(earlier).add_tokens(5)
    assert {k: meter.spent()[k] for k in ("calls", "tokens", "seconds")} == {
        "calls": 3,
        "tokens": 15,
        "seconds": 1,
    }
    assert [meter.child(earlier).take_call() for _ in range(3)] == [None, None, "budget_calls"]


@pytest.mark.parametrize("limit", [{"calls": 0}, {"seconds": -1}, {"tokens": 0}])
def test_a_budget_of_nothing_is_refused(limit: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be more than 0"):
        Budget(**limit)
