"""The one-tool agent after an execution: answer, repair, or end; and models without tool calls.

The runner is scripted. Real programs run in tests/integration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import PrivateAttr

from agent.config import load_settings
from agent.exec_graph import build_graph
from agent.parts.exec_parts import ExecParts
from agent.threads.memory_store import Memory
from libs.exec_tool.execute_code_call import Call
from libs.exec_tool.outcome import NO_VALUE, ExecResult
from libs.exec_tool.program_runner import CodeRunner
from libs.models.scripted_model import Reply
from libs.persistence.thread_database import SqliteDatabase
from libs.persistence.thread_memory import MessageMemory
from tests.support.exec_tool.exec_runners import playing, program

GOOD = ExecResult(stdout='{"ok": true}', result={"ok": True, "answer": "It is 3.", "rows": [1, 2]})
BAD = ExecResult.failed("memory", "The sandbox ran out of memory.", "Work on less.")
APPROVE: Any = Command(resume={"decisions": [{"type": "approve"}]})


@dataclass
class ScriptedRunner:
    """Returns results in turn, and records the calls."""

    results: Sequence[ExecResult]
    calls: list[tuple[Call, str, str | None]] = field(default_factory=list)
    prepared: int = 0
    keeps_files = True

    async def acall(self, call: Call, *, thread: str = "", key: str | None = None, **_: Any) -> ExecResult:
        self.calls.append((call, thread, key))
        return self.results[len(self.calls) - 1]

    def prepare(self) -> None:
        self.prepared += 1


class Plain(BaseChatModel):
    """A model without tools."""

    replies: tuple[str, ...]
    _requests: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "plain"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        assert "tools" not in kwargs
        self._requests.append(messages)
        return ChatResult(
            generations=[ChatGeneration(message=AIMessage(self.replies[len(self._requests) - 1]))]
        )


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    made = SqliteDatabase(tmp_path / "memory.sqlite")
    yield made
    made.close()


class Agent:
    """The compiled graph with a scripted runner."""

    def __init__(
        self, database: SqliteDatabase, model: BaseChatModel, *results: ExecResult, **settings: Any
    ) -> None:
        self.runner = ScriptedRunner(results)
        self.model: Any = model
        parts = ExecParts(
            cast("CodeRunner", self.runner), Memory(MessageMemory(database), 20, 4, "thread"), database
        )
        chosen = load_settings(None, **{"approvals": "auto", **settings})
        self.graph: Any = build_graph(model, settings=chosen, parts=parts, checkpointer=InMemorySaver())

    async def __call__(self, given: Any = "How many rows has the file?") -> Any:
        value = {"messages": [HumanMessage(given)]} if isinstance(given, str) else given
        return await self.graph.ainvoke(value, {"configurable": {"thread_id": "1"}})


class TestRepairs:
    async def test_success_needs_one_model_call_and_one_execution(self, database: SqliteDatabase) -> None:
        agent = Agent(database, playing(program()), GOOD)
        result = await agent()
        assert len(agent.model._requests) == len(agent.runner.calls) == agent.runner.prepared == 1
        assert result["status"] == "completed"
        assert (
            result["messages"][-1].text == 'It is 3.\n\n```json\n{\n  "rows": [\n    1,\n    2\n  ]\n}\n```'
        )
        call, thread, key = agent.runner.calls[0]
        assert (call.code, thread) == ("print(3)", "1")
        assert key and key.endswith(result["messages"][1].tool_calls[0]["id"])

    async def test_error_goes_back_to_the_model(self, database: SqliteDatabase) -> None:
        model = playing(program("a"), program(nope=1), program("b"))
        agent = Agent(database, model, BAD, GOOD, exec_repairs=2)
        result = await agent()
        assert [call.code for call, *_ in agent.runner.calls] == ["a", "b"]
        assert '"class": "memory"' in agent.model._requests[1][-1].text
        assert "There is no parameter 'nope'" in agent.model._requests[2][-1].text
        assert (result["status"], len(agent.model._requests)) == ("completed", 3)

    @pytest.mark.parametrize("repairs", [0, 2])
    async def test_run_ends_after_the_allowed_repairs(self, database: SqliteDatabase, repairs: int) -> None:
        agent = Agent(database, playing(*[program()] * 9), *[BAD] * 9, exec_repairs=repairs)
        result = await agent()
        assert len(agent.model._requests) == len(agent.runner.calls) == repairs + 1
        assert result["status"] == "error"
        last = result["messages"][-1].text
        assert "ran out of memory. (memory) Work on less." in last
        assert "EXEC_REPAIRS" in last

    async def test_end_after_failures_tells_what_else_the_last_reply_has_done(
        self, database: SqliteDatabase
    ) -> None:
        both = Reply(tool_calls=program("a").tool_calls + program("b").tool_calls)
        agent = Agent(database, playing(both), GOOD, BAD, exec_repairs=0)
        last = (await agent())["messages"][-1].text
        assert last.startswith("It is 3.\n\n```json")
        assert "\n\nI stopped here: 1 try failed, and the task is not done. The sandbox ran out" in last

    async def test_program_with_an_unknown_end_may_have_done_the_task(self, database: SqliteDatabase) -> None:
        lost = ExecResult.failed("interrupted", "Its effect is unknown.", "Look first.")
        last = (await Agent(database, playing(program()), lost, exec_repairs=0)())["messages"][-1].text
        assert "not done" not in last
        assert "nobody knows how much of the task is done. Its effect is unknown." in last

    async def test_answer_tells_what_an_earlier_reply_has_done(self, database: SqliteDatabase) -> None:
        both = Reply(tool_calls=program("a").tool_calls + program("b").tool_calls)
        mended = ExecResult(result={"answer": "It is 4."})
        agent = Agent(database, playing(both, program("c"), "", program("d")), GOOD, BAD, mended, mended)
        last = (await agent())["messages"][-1].text
        assert last.startswith("It is 3.\n\n```json")
        assert last.endswith("\n\nIt is 4.")
        assert (await agent())["messages"][-1].text == "It is 4."

    async def test_answer_without_a_program_is_questioned_once(self, database: SqliteDatabase) -> None:
        agent = Agent(database, playing("There are 12 rows.", program()), GOOD)
        assert (await agent())["status"] == "completed"
        assert "Nothing has been run yet for the latest request." in agent.model._requests[1][-1].text
        agent = Agent(database, playing("Hello.", "Hello!"))
        result = await agent("Good morning")
        assert (result["status"], result["messages"][-1].text) == ("completed", "Hello!")

    @pytest.mark.parametrize(
        ("given", "answer"),
        [
            (ExecResult(result="text"), "text"),
            (ExecResult(result=None, stdout="printed\n"), "printed"),
            (ExecResult(), "The program succeeded and printed nothing."),
            (
                ExecResult(stderr="warned\n", note=NO_VALUE),
                "The program succeeded and printed only to standard error:\n\nwarned",
            ),
            (ExecResult(result=0), "```json\n0\n```"),
            (ExecResult(stdout='3\n{"answer": ""}', result={"answer": " "}), '3\n{"answer": ""}'),
            (ExecResult(stdout='""\n', result=""), '""'),
            (ExecResult(result={"answer": "", "rows": 1}), '```json\n{\n  "rows": 1\n}\n```'),
            (ExecResult(result={"answer": "Done.", "ok": 1}), 'Done.\n\n```json\n{\n  "ok": 1\n}\n```'),
            (
                ExecResult(result={"answer": "Done."}, files={"results/a.png": b"12"}),
                "Done.\n\nFiles: results/a.png (2 bytes)",
            ),
            (
                ExecResult(result={"answer": "Done."}, files={"a (9 bytes)\nb": b"12"}),
                "Done.\n\nFiles: 'a (9 bytes)\\nb' (2 bytes)",
            ),
            (
                ExecResult(result={"answer": "Done."}, files={"new": b"12"}, removed=("a", "b\nc")),
                "Done.\n\nFiles: new (2 bytes)\n\nRemoved: a, 'b\\nc'",
            ),
            (ExecResult(stdout="printed", note=NO_VALUE), "printed"),
            (
                ExecResult(stdout="printed", note=f"{NO_VALUE} 2 files are lost."),
                "printed\n\n[2 files are lost.]",
            ),
            (ExecResult(result=[None], note="NaN is null."), "```json\n[\n  null\n]\n```\n\n[NaN is null.]"),
        ],
    )
    async def test_answer_from_the_result(
        self, database: SqliteDatabase, given: ExecResult, answer: str
    ) -> None:
        result = await Agent(database, playing(program()), given)()
        assert result["messages"][-1].text == answer

    async def test_answer_counts_all_that_was_left_out(self, database: SqliteDatabase) -> None:
        given = ExecResult(stdout=" " * 4_000 + "x" * 100_000)
        result = await Agent(database, playing(program()), given)()
        answer = result["messages"][-1].text
        counts = re.findall(r"\[… ([0-9,]+) characters left out", answer)
        assert sum(int(each.replace(",", "")) for each in counts) == 100_000


class TestApprovals:
    async def test_question_shows_the_whole_call(self, database: SqliteDatabase) -> None:
        asked = program("print(3)", dependencies=["six"], args={"a": 1})
        agent = Agent(database, playing(asked), GOOD, approvals="ask")
        waiting = await agent()
        [question] = [each.value for each in waiting["__interrupt__"]]
        [request] = question["action_requests"]
        assert request["name"] == "execute_code"
        assert all(part in request["description"] for part in ("print(3)", "six", '{"a": 1}'))
        assert agent.runner.calls == []
        assert (await agent(APPROVE))["status"] == "completed"
        assert len(agent.runner.calls) == 1

    async def test_refusal_goes_to_the_model_and_is_no_attempt(self, database: SqliteDatabase) -> None:
        model = playing(program("a"), program("b"), program("c"))
        agent = Agent(database, model, BAD, GOOD, approvals="ask", exec_repairs=1)
        await agent()
        await agent(Command(resume={"decisions": [{"type": "reject", "message": "not that one"}]}))
        assert "not that one" in agent.model._requests[1][-1].text
        assert "__interrupt__" in await agent(APPROVE), "the repair is asked about too"
        assert (await agent(APPROVE))["status"] == "completed"
        assert [call.code for call, *_ in agent.runner.calls] == ["b", "c"]

    async def test_call_without_a_result_is_answered_before_the_next_message(
        self, database: SqliteDatabase
    ) -> None:
        """Providers refuse a request with a call that has no answer."""
        agent = Agent(database, playing(program("a"), program("b")), GOOD, approvals="ask")
        await agent()
        await agent("Go on.")
        *_, call, told, asked = agent.model._requests[1]
        assert (told.tool_call_id, asked.text) == (call.tool_calls[0]["id"], "Go on.")
        assert told.text.startswith("This execute_code call never began, was stopped")
        assert (await agent(APPROVE))["status"] == "completed"
        assert [call.code for call, *_ in agent.runner.calls] == ["b"]


class TestModelsWithoutTools:
    async def test_block_becomes_a_call(self, database: SqliteDatabase) -> None:
        reply = "First:\n```bash\nx=3\n```\nthen\n```bash\necho $x\n```\nand\n```text\nno\n```"
        agent = Agent(database, Plain(replies=(reply,)), GOOD)
        result = await agent()
        assert [(call.code, call.language) for call, *_ in agent.runner.calls] == [("x=3\n\necho $x", "bash")]
        assert result["status"] == "completed"
        [request] = agent.model._requests
        assert "You reply with one whole program" in request[0].text
        assert "execute_code" not in request[0].text
        assert "dependencies" not in request[0].text

    @pytest.mark.parametrize(
        ("reply", "reason"),
        [
            ("```bash\nls data\n```\n```python\nprint(3)\n```", "programs in several languages"),
            ("```python\nprint(3)", "has no closing ```"),
            ("```python\nprint('\ud83d')\n```", "half of a surrogate pair"),
            ("```python\n\n```", "the block was empty"),
            ("<think>Done?</think>", "Your reply was empty"),
        ],
    )
    async def test_blocks_that_are_no_call_are_requested_again_with_the_reason(
        self, database: SqliteDatabase, reply: str, reason: str
    ) -> None:
        agent = Agent(database, Plain(replies=(reply, "```python\nprint(3)\n```")), GOOD)
        # Not even where the task needs no program: the model has written some.
        assert (await agent("Good morning"))["status"] == "completed"
        assert reason in agent.model._requests[1][-1].text
        assert [call.code for call, *_ in agent.runner.calls] == ["print(3)"]
        agent = Agent(database, Plain(replies=(reply, reply)))
        result = await agent()
        assert (result["status"], agent.runner.calls) == ("no_execution", [])
        kinds = [message.type for message in result["messages"]]
        assert kinds == ["human", "ai", "human", "ai"]
        assert result["messages"][-1].text.startswith(f"{reply}\n\nI stopped here")

    @pytest.mark.parametrize(
        ("reply", "reason"),
        [
            ("```\nprint(3)\n```", "does not say its language"),
            ("```js\nf()\n```", "only Python and bash"),
            ('{"name": "execute_code", "arguments": {}}', "calls in JSON or XML"),
        ],
    )
    async def test_what_may_be_a_program_is_no_answer_after_a_failure(
        self, database: SqliteDatabase, reply: str, reason: str
    ) -> None:
        block = "```python\nprint(3)\n```"
        agent = Agent(database, Plain(replies=("It is 3.", block, reply, block)), BAD, GOOD)
        assert (await agent())["messages"][-1].text.startswith("It is 3.\n\n```json")
        assert reason in agent.model._requests[3][-1].text
        agent = Agent(database, Plain(replies=(block, reply, reply)), BAD)
        assert (await agent())["messages"][-1].text == reply

    async def test_empty_reply_is_no_answer(self, database: SqliteDatabase) -> None:
        agent = Agent(database, playing(program(), "", program()), BAD, GOOD)
        assert (await agent())["status"] == "completed"
        empty, asked = agent.model._requests[2][-2:]
        assert empty.text == "(no reply)"
        assert "Your reply was empty" in asked.text

    async def test_error_goes_back_as_text(self, database: SqliteDatabase) -> None:
        agent = Agent(database, Plain(replies=("```bash\nfalse\n```", "```bash\ntrue\n```")), BAD, GOOD)
        assert (await agent())["status"] == "completed"
        request = agent.model._requests[1]
        assert [message.type for message in request] == ["system", "human", "ai", "human"]
        assert request[2].text == "```bash\nfalse\n```"
        assert "memory" in request[3].text
        assert not any(isinstance(message, ToolMessage) for message in request)

    async def test_block_needs_approval(self, database: SqliteDatabase) -> None:
        agent = Agent(database, Plain(replies=("```python\nprint(3)\n```",)), GOOD, approvals="ask")
        waiting = await agent()
        [question] = [each.value for each in waiting["__interrupt__"]]
        assert question["action_requests"][0]["args"] == {"code": "print(3)", "language": "python"}
        assert (await agent(APPROVE))["status"] == "completed"
