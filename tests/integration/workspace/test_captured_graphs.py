"""Checkpoints of both agents hold the tickets of their files, and runs from earlier ones bring files back."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from agent.run import ThreadPoints
from libs.models.scripted_model import Conversation, Reply
from libs.persistence.sqlite_saver import open_checkpointer
from tests.integration.workspace.captured_agents import THREAD, CapturedAgent, captured_agent, uses

pytestmark = pytest.mark.docker

DONE = Reply(text="Done.")
WENT_BACK = re.compile(r"brought (the files )?back")
APPROVE: Any = Command(resume={"decisions": [{"type": "approve"}]})


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def step(kind: str, command: str) -> Reply:
    if kind == "deep":
        return uses(("execute", {"command": command}))
    return Reply(text=f"```bash\n{command}\n```")


def grows(kind: str) -> Conversation:
    """Three turns, each of which adds a line to a file."""
    turns = [(step(kind, f"echo {turn} >> /results/a"), DONE) for turn in (1, 2, 3)]
    return Conversation(replies=tuple(reply for turn in turns for reply in turn))


def notes(done: Any) -> list[int]:
    """Return the places of the messages that tell the model of files that were brought back."""
    return [place for place, each in enumerate(done["messages"]) if WENT_BACK.search(each.text)]


async def end_of_first_turn(agent: CapturedAgent) -> Any:
    return next(state for state in await agent.states() if not state.next)


async def test_checkpoints_name_the_files_after_parallel_calls_and_subagents(tmp_path: Path) -> None:
    below = Conversation(when="Sub", replies=(step("deep", "echo sub > /results/sub"), DONE))
    above = Conversation(
        replies=(
            uses(*(("execute", {"command": f"echo {name} > /results/{name}"}) for name in "abc")),
            uses(("task", {"description": "Sub", "subagent_type": "general-purpose"})),
            DONE,
        )
    )
    with captured_agent("deep", tmp_path, InMemorySaver(), below, above) as agent:
        await agent.ask("go")
        tickets = list(dict.fromkeys(state.values.get("workspace") for state in await agent.states()))
        assert tickets[0] is None
        found = []
        for ticket in tickets[1:]:
            assert (await agent.history.go_back("t", ticket)).instead is None
            found.append(sorted(agent.files()))
        assert found == [[], ["a", "b", "c"], ["a", "b", "c", "sub"]]


@pytest.mark.parametrize("kind", ["deep", "code"])
async def test_schemas_have_no_tickets_and_messages_are_streamed_once(tmp_path: Path, kind: str) -> None:
    with captured_agent(kind, tmp_path, InMemorySaver(), grows(kind)) as agent:
        seen = []
        task = {"messages": [HumanMessage("go")]}
        async for part in agent.graph.astream(task, THREAD, stream_mode=["values", "updates", "messages"]):
            seen.append(part)
        assert (await agent.states())[-1].values["workspace"]
        schemas = agent.graph.get_input_jsonschema(), agent.graph.get_output_jsonschema()
        assert all("workspace" not in schema["properties"] for schema in schemas)
        if kind == "deep":  # the message of a tool is streamed once, as without captures
            told = [part for mode, part in seen if mode == "messages" and part[0].type == "tool"]
            assert len(told) == 1
            updates = [part["tools"] for mode, part in seen if mode == "updates" and "tools" in part]
            assert [update["messages"][0].id for update in updates] == [told[0][0].id]


@pytest.mark.parametrize("kind", ["deep", "code"])
async def test_run_from_an_earlier_checkpoint_has_its_files(tmp_path: Path, kind: str) -> None:
    async with open_checkpointer(tmp_path / "threads.sqlite") as saver:
        with captured_agent(kind, tmp_path, saver, grows(kind)) as agent:
            await agent.ask("first")
            await agent.ask("second")
            assert agent.files() == {"a": "1\n2\n"}
            begin = await end_of_first_turn(agent)
            again = {"messages": [HumanMessage("second, again")]}
            done = await agent.graph.ainvoke(again, begin.config)
            assert agent.files() == {"a": "1\n2\n"}
            assert len(notes(done)) == 1, "the model is told"
            await agent.ask("third")
            assert agent.files() == {"a": "1\n2\n3\n"}


@pytest.mark.parametrize("kind", ["deep", "code"])
async def test_step_that_is_pending_at_an_earlier_checkpoint_runs_again(tmp_path: Path, kind: str) -> None:
    with captured_agent(kind, tmp_path, InMemorySaver(), grows(kind)) as agent:
        await agent.ask("first")
        await agent.ask("second")
        node = "tools" if kind == "deep" else "run"
        pending = [state for state in await agent.states() if node in state.next]
        assert len(pending) == 2
        await agent.graph.ainvoke(None, pending[-1].config)
        assert agent.files() == {"a": "1\n2\n"}
        done = await agent.graph.ainvoke(None, pending[0].config)
        assert agent.files() == {"a": "1\n"}
        assert notes(done)[0] == len(done["messages"]) - 2, "the note follows the step, before the reply"
        done = await agent.ask("second, again")
        assert len(notes(done)) == 1


@pytest.mark.parametrize("kind", ["deep", "code"])
async def test_model_is_told_of_files_that_went_back_while_a_question_was_open(
    tmp_path: Path, kind: str
) -> None:
    async with open_checkpointer(tmp_path / "threads.sqlite") as saver:
        with captured_agent(kind, tmp_path, saver, grows(kind), approvals="ask") as agent:
            await agent.ask("first")
            await agent.graph.ainvoke(APPROVE, THREAD)
            await agent.ask("second")
            points = ThreadPoints("t", agent.graph, saver, agent.history)
            await points.go_to(0, files_only=True)
            assert agent.files() == {}
            await points.undo()
            await points.go_to(0, files_only=True)
            done = await agent.graph.ainvoke(APPROVE, THREAD)
            assert agent.files() == {"a": "2\n"}
            assert notes(done) == [len(done["messages"]) - 2]
            note = done["messages"][-2].text
            assert note.startswith(
                "While your latest reply waited for the person's answer, the person brought"
            )
            assert len(notes(await agent.ask("third"))) == 1


async def test_run_after_update_of_an_earlier_checkpoint_has_its_files(tmp_path: Path) -> None:
    with captured_agent("deep", tmp_path, InMemorySaver(), grows("deep")) as agent:
        await agent.ask("first")
        await agent.ask("second")
        begin = await end_of_first_turn(agent)
        await agent.graph.aupdate_state(begin.config, {"messages": [HumanMessage("note")]})
        assert agent.files() == {"a": "1\n2\n"}
        await agent.ask("second, again")
        assert agent.files() == {"a": "1\n2\n"}


async def test_checkpoint_that_does_not_exist_moves_no_files(tmp_path: Path) -> None:
    with captured_agent("deep", tmp_path, InMemorySaver(), grows("deep")) as agent:
        await agent.ask("first")
        missing = {
            "configurable": {"thread_id": "t", "checkpoint_id": "1f000000-0000-6000-8000-000000000000"}
        }
        await agent.graph.ainvoke({"messages": [HumanMessage("from the begin")]}, missing)
        assert agent.files() == {"a": "1\n1\n"}


async def test_conversation_without_commands_can_be_forked(tmp_path: Path) -> None:
    talk = Conversation(replies=(DONE, DONE, DONE))
    with captured_agent("deep", tmp_path, InMemorySaver(), talk) as agent:
        await agent.ask("first")
        await agent.ask("second")
        begin = await end_of_first_turn(agent)
        done = await agent.graph.ainvoke({"messages": [HumanMessage("again")]}, begin.config)
        assert [message.text for message in done["messages"]] == ["first", "Done.", "again", "Done."]


async def test_answer_to_a_question_moves_no_files(tmp_path: Path) -> None:
    with captured_agent("deep", tmp_path, InMemorySaver(), grows("deep"), approvals="ask") as agent:
        await agent.ask("first")
        await agent.graph.ainvoke(APPROVE, THREAD)
        await agent.ask("second")
        place = tmp_path / "workspace" / "threads" / "t" / "results" / "report"
        place.write_text("of a person")
        await agent.graph.ainvoke(APPROVE, THREAD)
        assert agent.files() == {"a": "1\n2\n", "report": "of a person"}


async def test_run_that_was_cut_off_goes_on_with_its_files(tmp_path: Path) -> None:
    cut = Conversation(
        replies=(
            step("deep", "echo 1 > /results/a"),
            step("deep", "echo 2 > /results/half; sleep 300"),
            DONE,
        )
    )
    with captured_agent("deep", tmp_path, InMemorySaver(), cut) as agent:
        run = asyncio.ensure_future(agent.ask("go"))
        while "half" not in agent.files():
            await asyncio.sleep(0.05)
            assert not run.done()
        run.cancel()
        await asyncio.wait({run})
        await agent.graph.ainvoke(None, THREAD)
        assert agent.files() == {"a": "1\n", "half": "2\n"}


@pytest.mark.parametrize("saver", ["memory", "sqlite"])
def test_run_without_an_event_loop_brings_files_back(tmp_path: Path, saver: str) -> None:
    """LangGraph's own SQLite saver has synchronous methods only."""
    with SqliteSaver.from_conn_string(str(tmp_path / "own.sqlite")) as sqlite:
        checkpointer: Any = InMemorySaver() if saver == "memory" else sqlite
        with captured_agent("deep", tmp_path, checkpointer, grows("deep")) as agent:
            for task in ("first", "second"):
                agent.graph.invoke({"messages": [HumanMessage(task)]}, THREAD)
            ends = [state for state in agent.graph.get_state_history(THREAD) if not state.next]
            agent.graph.invoke({"messages": [HumanMessage("again")]}, ends[-1].config)
            assert agent.files() == {"a": "1\n2\n"}
