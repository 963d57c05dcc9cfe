"""What follows an execution: the answer, another try, or the end (X7); and models that write no calls.

The runner is played here: what matters is what becomes of a result. Real programs run in tests/integration.
"""

from __future__ import annotations

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
from agent.exec_parts import ExecParts
from agent.memory import Memory
from libs.exec_tool.call import Call
from libs.exec_tool.outcome import ExecResult
from libs.exec_tool.runner import CodeRunner
from libs.middleware.approvals import CheckpointerRequired
from libs.models.scripted import Conversation, Reply, ScriptedChatModel, ToolUse
from libs.persistence.database import SqliteDatabase
from libs.persistence.memory import MessageMemory

GOOD = ExecResult(stdout='{"ok": true}', result={"ok": True, "answer": "It is 3.", "rows": [1, 2]})
BAD = ExecResult.failed("memory", "The sandbox ran out of memory.", "Work on less.")
APPROVE: Any = Command(resume={"decisions": [{"type": "approve"}]})


@dataclass
class Played:
    """Gives results in turn, and keeps the calls."""

    results: Sequence[ExecResult]
    calls: list[tuple[Call, str, str | None]] = field(default_factory=list)
    prepared: int = 0
    keeps_files = True

    async def acall(
        self, call: Call, *, thread: str = "", key: str | None = None, on_output: Any = None
    ) -> ExecResult:
        self.calls.append((call, thread, key))
        return self.results[len(self.calls) - 1]

    def prepare(self) -> None:
        self.prepared += 1


class Recording(ScriptedChatModel):
    """Plays its script and keeps the requests."""

    _requests: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    def _next(self, messages: Any) -> AIMessage:
        self._requests.append(list(messages))
        return super()._next(messages)


class Plain(BaseChatModel):
    """A model that has no tools."""

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


def program(code: str = "print(3)", **args: Any) -> Reply:
    return Reply(tool_calls=(ToolUse(name="execute_code", args={"code": code, **args}),))


def playing(*replies: Reply | str) -> Recording:
    given = tuple(Reply(text=reply) if isinstance(reply, str) else reply for reply in replies)
    return Recording(conversations=(Conversation(replies=given),))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    made = SqliteDatabase(tmp_path / "memory.sqlite")
    yield made
    made.close()


class Agent:
    """The compiled graph over a played runner."""

    def __init__(
        self, database: SqliteDatabase, model: BaseChatModel, *results: ExecResult, **settings: Any
    ) -> None:
        self.runner = Played(results)
        self.model: Any = model
        parts = ExecParts(
            cast("CodeRunner", self.runner), Memory(MessageMemory(database), 20, 4, "thread"), database
        )
        chosen = load_settings(None, **{"approvals": "auto", **settings})
        self.graph: Any = build_graph(model, settings=chosen, parts=parts, checkpointer=InMemorySaver())

    async def __call__(self, given: Any = "How many rows has the file?") -> Any:
        value = {"messages": [HumanMessage(given)]} if isinstance(given, str) else given
        return await self.graph.ainvoke(value, {"configurable": {"thread_id": "1"}})


class TestOneExecution:
    async def test_success_is_one_generation_and_one_execution(self, database: SqliteDatabase) -> None:
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

    async def test_an_error_goes_back_once(self, database: SqliteDatabase) -> None:
        agent = Agent(database, playing(program("a"), program("b")), BAD, GOOD)
        result = await agent()
        assert [call.code for call, *_ in agent.runner.calls] == ["a", "b"]
        assert '"class": "memory"' in agent.model._requests[1][-1].text
        assert (result["status"], len(agent.model._requests)) == ("completed", 2)

    @pytest.mark.parametrize("repairs", [0, 1, 3])
    async def test_no_more_often_than_it_may_be_mended(self, database: SqliteDatabase, repairs: int) -> None:
        agent = Agent(database, playing(*[program()] * 9), *[BAD] * 9, exec_repairs=repairs)
        result = await agent()
        assert len(agent.model._requests) == len(agent.runner.calls) == repairs + 1
        assert result["status"] == "error"
        last = result["messages"][-1].text
        assert "ran out of memory. (memory) Work on less." in last
        assert "EXEC_REPAIRS" in last

    async def test_a_call_that_is_none_is_a_try_as_well(self, database: SqliteDatabase) -> None:
        agent = Agent(database, playing(program(nope=1), program()), GOOD)
        result = await agent()
        assert "There is no parameter 'nope'" in agent.model._requests[1][-1].text
        assert (len(agent.runner.calls), result["status"]) == (1, "completed")

    async def test_a_large_bad_call_is_not_repeated_to_the_model(self, database: SqliteDatabase) -> None:
        agent = Agent(
            database, playing(program("x" * 10_000_000), program()), GOOD, run_max_tokens=1_000_000_000
        )
        await agent()
        assert len(agent.model._requests[1][-1].text) < 2_000

    async def test_the_next_task_begins_anew(self, database: SqliteDatabase) -> None:
        agent = Agent(database, playing(program(), program(), "x", program()), BAD, BAD, GOOD)
        assert (await agent())["status"] == "error"
        assert (await agent("and again"))["status"] == "completed"

    async def test_words_before_any_program_are_questioned_once(self, database: SqliteDatabase) -> None:
        agent = Agent(database, playing("There are 12 rows.", program()), GOOD)
        assert (await agent())["status"] == "completed"
        assert "Nothing has been run yet" in agent.model._requests[1][-1].text
        agent = Agent(database, playing("Hello.", "Hello!"))
        result = await agent("Good morning")
        assert (result["status"], result["messages"][-1].text) == ("completed", "Hello!")

    async def test_two_programs_of_a_reply_are_both_answered(self, database: SqliteDatabase) -> None:
        both = Reply(tool_calls=(*program("a").tool_calls, *program("b").tool_calls))
        agent = Agent(database, playing(both), GOOD, ExecResult(result=4))
        result = await agent()
        assert len(agent.runner.calls) == 2
        assert "It is 3." in result["messages"][-1].text
        assert "4" in result["messages"][-1].text

    @pytest.mark.parametrize(
        ("given", "answer"),
        [
            (ExecResult(result="text"), "text"),
            (ExecResult(result=None, stdout="printed\n"), "printed"),
            (ExecResult(), "The program ended well and printed nothing."),
            (ExecResult(result=0), "```json\n0\n```"),
            (
                ExecResult(result={"answer": "Done."}, files={"results/a.png": b"12"}),
                "Done.\n\nFiles: results/a.png (2 bytes)",
            ),
        ],
    )
    async def test_the_answer(self, database: SqliteDatabase, given: ExecResult, answer: str) -> None:
        result = await Agent(database, playing(program()), given)()
        assert result["messages"][-1].text == answer


class TestApprovals:
    async def test_nothing_runs_before_a_person_has_seen_all_of_it(self, database: SqliteDatabase) -> None:
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

    async def test_a_refusal_is_read_and_counts_for_nothing(self, database: SqliteDatabase) -> None:
        agent = Agent(database, playing(program("a"), program("b")), GOOD, approvals="ask", exec_repairs=0)
        await agent()
        await agent(Command(resume={"decisions": [{"type": "reject", "message": "not that one"}]}))
        assert "not that one" in agent.model._requests[1][-1].text
        assert (await agent(APPROVE))["status"] == "completed"
        assert [call.code for call, *_ in agent.runner.calls] == ["b"]

    async def test_a_repair_is_asked_about_too(self, database: SqliteDatabase) -> None:
        agent = Agent(database, playing(program("a"), program("b")), BAD, GOOD, approvals="ask")
        await agent()
        waiting = await agent(APPROVE)
        assert "__interrupt__" in waiting
        assert (await agent(APPROVE))["status"] == "completed"

    async def test_without_a_checkpointer_nothing_runs(self, database: SqliteDatabase) -> None:
        parts = ExecParts(
            cast("CodeRunner", Played([GOOD])), Memory(MessageMemory(database), 20, 4, "thread"), database
        )
        graph = build_graph(playing(program()), settings=load_settings(None, approvals="ask"), parts=parts)
        with pytest.raises(CheckpointerRequired):
            await graph.ainvoke({"messages": [HumanMessage("run")]})


class TestModelsWithoutTools:
    async def test_a_block_is_the_call(self, database: SqliteDatabase) -> None:
        agent = Agent(database, Plain(replies=("I do it.\n```python\nprint(3)\n```\nDone.",)), GOOD)
        result = await agent()
        assert [(call.code, call.language) for call, *_ in agent.runner.calls] == [("print(3)", "python")]
        assert result["status"] == "completed"
        [request] = agent.model._requests
        assert "You reply with one whole program" in request[0].text
        assert "execute_code" not in request[0].text
        assert "dependencies" not in request[0].text

    @pytest.mark.parametrize("language", ["python", "bash"])
    async def test_blocks_of_one_language_are_one_program(
        self, database: SqliteDatabase, language: str
    ) -> None:
        reply = f"First:\n```{language}\nx=3\n```\nthen\n```{language}\necho=x\n```\nand\n```text\nno\n```"
        agent = Agent(database, Plain(replies=(reply,)), GOOD)
        assert (await agent())["status"] == "completed"
        assert [(call.code, call.language) for call, *_ in agent.runner.calls] == [
            ("x=3\n\necho=x", language)
        ]

    async def test_blocks_of_several_languages_are_asked_for_as_one(self, database: SqliteDatabase) -> None:
        several = "```bash\nls data\n```\n```python\nprint(3)\n```"
        agent = Agent(database, Plain(replies=(several, "```python\nprint(3)\n```")), GOOD)
        # Not even where the task needs no program: the model has written some.
        assert (await agent("Good morning"))["status"] == "completed"
        assert "programs in several languages" in agent.model._requests[1][-1].text
        assert [call.code for call, *_ in agent.runner.calls] == ["print(3)"]
        agent = Agent(database, Plain(replies=(several, several)))
        assert ((await agent())["status"], agent.runner.calls) == ("no_execution", [])

    async def test_a_repair_in_several_languages_is_no_success(self, database: SqliteDatabase) -> None:
        several = "```bash\nls data\n```\n```python\nprint(3)\n```"
        agent = Agent(database, Plain(replies=("```bash\nls\n```", several, "```bash\nls .\n```")), BAD, GOOD)
        assert (await agent())["status"] == "completed"
        assert [call.code for call, *_ in agent.runner.calls] == ["ls", "ls ."]

    async def test_an_error_goes_back_as_text(self, database: SqliteDatabase) -> None:
        agent = Agent(database, Plain(replies=("```bash\nfalse\n```", "```bash\ntrue\n```")), BAD, GOOD)
        assert (await agent())["status"] == "completed"
        request = agent.model._requests[1]
        assert [message.type for message in request] == ["system", "human", "ai", "human"]
        assert request[2].text == "```bash\nfalse\n```"
        assert "memory" in request[3].text
        assert not any(isinstance(message, ToolMessage) for message in request)

    async def test_a_person_is_asked_about_it(self, database: SqliteDatabase) -> None:
        agent = Agent(database, Plain(replies=("```python\nprint(3)\n```",)), GOOD, approvals="ask")
        waiting = await agent()
        [question] = [each.value for each in waiting["__interrupt__"]]
        assert question["action_requests"][0]["args"] == {"code": "print(3)", "language": "python"}
        assert (await agent(APPROVE))["status"] == "completed"

    async def test_words_are_an_answer(self, database: SqliteDatabase) -> None:
        result = await Agent(database, Plain(replies=("Hi.", "Hello.")))("Good morning")
        assert (result["status"], result["messages"][-1].text) == ("completed", "Hello.")
