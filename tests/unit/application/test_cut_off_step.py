"""A step of several tool calls that is cut off: what had ended is kept, the rest is told as unknown."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from agent.run.agent_run import Run
from libs.code_blocks import SandboxRunner
from libs.middleware.approvals.addressed_graph import answer_by_id
from libs.middleware.open_calls import open_calls, stopped_text
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel, ToolUse
from libs.sandbox.protocol import RunResult
from tests.support.code_loops import bash, looping, playing


@pytest.mark.parametrize("calls", [("quick", "slow", "quick"), ("slow", "quick"), ("slow",)])
async def test_results_of_ended_calls_are_kept(calls: tuple[str, ...]) -> None:
    """Without them the thread has calls without an answer, which providers refuse."""
    begun = asyncio.Event()

    @tool
    async def quick() -> str:
        """Return at once."""
        return "its result"

    @tool
    async def slow() -> str:
        """Last until the run is cut off."""
        await asyncio.sleep(0.1)  # the other calls end meanwhile
        begun.set()
        await asyncio.sleep(60)
        return "never"

    replies = (Reply(tool_calls=tuple(ToolUse(name=each) for each in calls)), Reply(text="Done."))
    model = ScriptedChatModel(conversations=(Conversation(replies=replies),))
    agent = create_agent(model, [quick, slow], checkpointer=InMemorySaver())
    run = Run(answer_by_id(agent), "deep", "thread", None)

    async def carry_out() -> None:
        async for _ in run.begin("a task"):
            pass

    running = asyncio.create_task(carry_out())
    await asyncio.wait_for(begun.wait(), 20)
    running.cancel()
    await asyncio.wait([running])
    await run.settle()

    messages = (await run.state()).values["messages"]
    assert open_calls(messages) == []
    told = {message.tool_call_id: message.text for message in messages if isinstance(message, ToolMessage)}
    expected = {"quick": "its result", "slow": stopped_text("slow")}
    assert [told[call["id"]] for call in messages[1].tool_calls] == [expected[each] for each in calls]

    async for _ in run.begin("another task"):
        pass
    asked = [each.text for each in (await run.state()).values["messages"] if isinstance(each, HumanMessage)]
    assert asked == ["a task", "another task"]
    assert (await run.result()).text == "Done."


class Killed(InMemorySaver):
    """Saves no step from some moment on, as if the process was killed after the step and before this."""

    killed = False

    async def aput(self, *given: Any) -> Any:
        if self.killed:
            raise RuntimeError("killed")
        return await super().aput(*given)


async def said_after_kill(run: Run, saver: Killed) -> list[str]:
    """Begin a task that is killed, and another one. Return the texts of all messages."""
    with pytest.raises(RuntimeError, match="killed"):
        async for _ in run.begin("a task"):
            pass
    saver.killed = False
    async for _ in run.begin("another task"):
        pass
    return [message.text for message in (await run.state()).values["messages"]]


async def test_results_of_a_step_that_was_not_saved_are_kept() -> None:
    saver = Killed()

    @tool
    async def quick() -> str:
        """Return at once."""
        saver.killed = True
        return "its result"

    replies = (Reply(tool_calls=(ToolUse(name="quick"),)), Reply(text="Done."))
    model = ScriptedChatModel(conversations=(Conversation(replies=replies),))
    run = Run(answer_by_id(create_agent(model, [quick], checkpointer=saver)), "deep", "thread", None)
    said = await said_after_kill(run, saver)
    assert said == ["a task", "", "its result", "another task", "Done."]


async def test_outputs_of_blocks_of_a_step_that_was_not_saved_are_kept(tmp_path: Path) -> None:
    saver = Killed()

    class Runner(SandboxRunner):
        async def run(self, *given: Any, **options: Any) -> RunResult:
            saver.killed = True
            return await super().run(*given, **options)

    model = playing(bash("echo its result"), "Done.", "Done.")
    with looping(tmp_path, model, checkpointer=saver, runner=Runner) as graph:
        _, _, output, task, *_ = await said_after_kill(Run(graph, "code", "thread", None), saver)
    assert output == "The bash block succeeded:\n```output\nits result\n```"
    assert task == "another task"
