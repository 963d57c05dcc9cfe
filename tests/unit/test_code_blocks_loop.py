"""The loop: what runs, what the model is told, and how a run ends."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from code_loops import (
    SYSTEM,
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
from langchain_core.language_models import FakeListChatModel, FakeListLLM, FakeStreamingListLLM
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.outputs import ChatGenerationChunk
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import PrivateAttr

from libs.code_blocks import BlockResult, Files, SandboxRunner
from libs.code_blocks.feedback import CUT_OFF
from libs.code_blocks.feedback import outputs as told
from libs.code_blocks.protocol import Execution
from libs.code_blocks.reader import MAX_REPLY, Block, Reading
from libs.code_blocks.reply_end import first_block
from libs.middleware.budget import Budget
from libs.models.scripted import ScriptedChatModel
from libs.sandbox.local import LocalSandbox
from libs.sandbox.records import CommandRecords

VENDOR_WORDS = re.compile(r"tool.?use|function.?call|tool.?call", re.IGNORECASE)
BIG = bash("echo big") + "\n" + "x " * 500_000


def test_blocks_run_in_order_and_the_model_reads_what_they_print(tmp_path: Path) -> None:
    model = playing(f"First.\n{bash('echo a')}\nThen.\n{python('print(1 + 1)')}", "There are 2.")
    with looping(tmp_path, model) as graph:
        result = graph.invoke({"messages": [HumanMessage(TASK)]})
    assert (result["status"], result["messages"][-1].text) == ("completed", "There are 2.")
    assert [(e["language"], e["code"], e["output"], e["exit_code"]) for e in result["executions"]] == [
        ("bash", "echo a", "a\n", 0),
        ("python", "print(1 + 1)", "2\n", 0),
    ]
    assert all(e["seconds"] >= 0 for e in result["executions"])
    assert set(result) == {"messages", "status", "executions"}
    assert said_to_the_model(result) == [
        "Block 1 (bash) succeeded:\n```output\na\n```\n\nBlock 2 (python) succeeded:\n```output\n2\n```"
    ]


def test_a_request_holds_the_system_prompt_and_the_conversation_and_nothing_else(tmp_path: Path) -> None:
    model = playing(bash("echo a"), bash("false"), "no code", bash("echo b"), "Done.")
    with looping(tmp_path, model) as graph:
        result = graph.invoke({"messages": [HumanMessage(TASK)]})
    assert len(model._requests) == 5
    for messages, beside in model._requests:
        assert messages[0].text == SYSTEM
        assert roles(messages[1:]) == (["human", "ai"] * len(messages))[: len(messages) - 1]
        assert beside == {"stop": None}
    assert roles(result["messages"]) == ["human", "ai"] * 5


def test_a_failing_block_stops_the_rest_of_its_reply(tmp_path: Path) -> None:
    reply = "\n".join([python("print(1)\n1 / 0"), bash("echo never"), bash("echo never")])
    result = run(tmp_path, reply, bash("echo mended"), "It is mended.")
    assert [e["exit_code"] for e in result["executions"]] == [1, 0]
    first, second = said_to_the_model(result)
    assert "Block 1 (python) failed with exit code 1" in first
    assert "ZeroDivisionError" in first
    assert first.count("was not run, because block 1 failed") == 2
    assert second == "The bash block succeeded:\n```output\nmended\n```"


def test_blocks_before_one_that_is_cut_off_run(tmp_path: Path) -> None:
    result = run(tmp_path, bash("echo a") + "\n```python\nprint(", bash("echo b"), "Done.")
    assert outputs(result) == ["a", "b"]
    assert "no closing ```" in said_to_the_model(result)[0]


def test_other_languages_beside_code_are_mentioned(tmp_path: Path) -> None:
    result = run(tmp_path, "```js\n1\n```\n" + bash("echo a"), "Done.")
    assert "js cannot run here, only Python and bash can" in said_to_the_model(result)[0]


NOT_CODE = {
    "untagged": ("```\nwc -l /data/sales.csv\n```", "does not say its language"),
    "typescript": ("```ts\nconst x = 1\n```", "ts cannot run here, only Python and bash can"),
    "a json call": ('{"name": "execute", "arguments": {"command": "ls"}}', "Write code that does the same"),
    "cut off": ("```python\nprint(", "no closing ```"),
    "endless": ("```python\n" + "x = 1\n" * 5_000, "no closing ```"),
    "nested": ("```bash\nls\n```python\nprint(1)\n```", "not clear where it ends"),
    "an empty block": ("```python\n```", "the block was empty"),
    "empty": ("", "Your reply was empty"),
    "only a thought": ("<think>I could run ls.</think>", "Your reply was empty"),
    "a megabyte": (BIG, f"longer than {MAX_REPLY:,} characters"),
}


@pytest.mark.parametrize(("reply", "reason"), NOT_CODE.values(), ids=NOT_CODE)
def test_a_reply_without_code_is_asked_for_it_three_times(tmp_path: Path, reply: str, reason: str) -> None:
    result = run(tmp_path, *[reply] * 4)
    assert result["status"] == "no_execution"
    assert result["executions"] == []
    assert len(said_to_the_model(result)) == 3
    assert all(reason in said for said in said_to_the_model(result))
    last = result["messages"][-1]
    assert isinstance(last, AIMessage)
    assert "no code was run, though I was asked for it 3 times" in last.text
    assert all(message.text.strip() for message in result["messages"])
    assert all(len(message.text) < MAX_REPLY for message in result["messages"])
    assert not [said for said in said_to_the_model(result) if VENDOR_WORDS.search(said)]
    assert not VENDOR_WORDS.search(last.text.removeprefix(reply))


@pytest.mark.parametrize(("reply", "reason"), NOT_CODE.values(), ids=NOT_CODE)
def test_after_being_asked_it_goes_on(tmp_path: Path, reply: str, reason: str) -> None:
    result = run(tmp_path, reply, bash("echo 3505"), "There are 3,505 rows.")
    assert (result["status"], outputs(result)) == ("completed", ["3505"])


def test_words_before_any_code_are_questioned_once(tmp_path: Path) -> None:
    guess = "I have counted the rows: there are 3,505."
    counted = run(tmp_path / "1", guess, bash("echo 3,506"), "There are 3,506.")
    assert (counted["status"], outputs(counted)) == ("completed", ["3,506"])
    assert said_to_the_model(counted)[0].startswith("Nothing has been run yet.")
    hello = run(tmp_path / "2", "Hello!", "Hello! What can I do?", task="Hello!")
    assert (hello["status"], hello["messages"][-1].text) == ("completed", "Hello! What can I do?")


@pytest.mark.parametrize(
    "answer", ["The table:\n\n    a 1\n", "It is:\n```text\n5\n```", '```json\n{"a": 5}\n```']
)
def test_an_answer_may_show_blocks(tmp_path: Path, answer: str) -> None:
    result = run(tmp_path, bash("echo 5"), answer)
    assert (result["status"], result["messages"][-1].text) == ("completed", answer)


def test_other_languages_in_an_answer_are_questioned_once(tmp_path: Path) -> None:
    answer = "In JavaScript:\n```js\n1\n```"
    result = run(tmp_path, bash("echo 5"), answer, answer)
    assert (result["status"], len(said_to_the_model(result))) == ("completed", 2)


def test_json_like_a_call_in_an_answer_is_questioned_once(tmp_path: Path) -> None:
    answer = '{"name": "mean", "parameters": {"column": "units"}, "value": 5}'
    result = run(tmp_path, bash("echo 5"), answer, answer)
    assert (result["status"], len(said_to_the_model(result))) == ("completed", 2)
    assert result["messages"][-1].text == answer


def test_an_untagged_block_in_an_answer_is_questioned_once(tmp_path: Path) -> None:
    untagged = "I count them:\n```\nprint(len(rows))\n```"
    result = run(tmp_path / "1", bash("echo 5"), untagged, python("print(5)"), "It is 5.")
    assert (result["status"], outputs(result)) == ("completed", ["5", "5"])
    assert "the block does not say its language" in said_to_the_model(result)[1]
    shown = run(tmp_path / "2", bash("echo 5"), untagged, untagged)
    assert (shown["status"], len(said_to_the_model(shown))) == ("completed", 2)


def test_words_after_a_failure_are_no_answer(tmp_path: Path) -> None:
    result = run(tmp_path, bash("exit 3"), "It worked.", "Really.", "Yes.", "I said so.")
    assert result["status"] == "no_execution"
    assert "The last code failed and nothing has run since" in said_to_the_model(result)[1]
    assert result["messages"][-1].text.startswith("I said so.\n\nI stopped here: I was asked 3 times")
    assert "The last code failed." in result["messages"][-1].text


def test_steps_end_a_run_and_the_thread_goes_on(tmp_path: Path) -> None:
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


def test_ten_steps_are_the_default(tmp_path: Path) -> None:
    result = run(tmp_path, *[bash(f"echo {n}") for n in range(11)])
    assert (result["status"], len(result["executions"])) == ("max_steps", 10)


def test_asking_counts_as_a_step(tmp_path: Path) -> None:
    result = run(tmp_path, "", "", max_steps=2)
    assert (result["status"], len(said_to_the_model(result))) == ("max_steps", 1)


def test_the_same_failing_code_is_told_so_and_then_ended(tmp_path: Path) -> None:
    result = run(tmp_path, *[bash("echo no; exit 1")] * 4)
    assert (result["status"], outputs(result)) == ("error", ["no", "no", "no"])
    first, second, _ = said_to_the_model(result)
    assert "exactly this code before" not in first
    assert "exactly this code before, and it failed before" in second
    assert "same code failed three times" in result["messages"][-1].text


def test_a_program_that_is_mended_step_by_step_may_fail_as_often_as_it_takes(tmp_path: Path) -> None:
    run_it = bash("python3 program.py")
    steps = [bash(f"echo 'raise ValueError({number})' > program.py") for number in range(4)]
    mended = bash("echo 'print(7)' > program.py")
    replies = [reply for step in steps for reply in (step, run_it)]
    result = run(tmp_path, *replies, mended, run_it, "It prints 7.", max_steps=20)
    assert (result["status"], outputs(result)[-1]) == ("completed", "7")
    assert not any("exactly this code before" in said for said in said_to_the_model(result)[:-1])


def test_the_same_error_is_the_same_wherever_objects_lie(tmp_path: Path) -> None:
    result = run(tmp_path, *[python("thing = object()\nraise ValueError(thing)")] * 4)
    assert (result["status"], len(result["executions"])) == ("error", 3)


def test_the_same_good_code_is_told_so(tmp_path: Path) -> None:
    result = run(tmp_path, bash("echo 5"), bash("echo 5"), "It is 5.")
    assert result["status"] == "completed"
    assert "reply with the answer and no code" in said_to_the_model(result)[1]


def test_code_that_works_after_a_change_elsewhere_is_no_repetition(tmp_path: Path) -> None:
    result = run(tmp_path, bash("cat a"), bash("echo x > a"), bash("cat a"), "Done.")
    assert result["status"] == "completed"
    assert not any("exactly this code" in said for said in said_to_the_model(result))


def test_an_output_cannot_end_its_own_label(tmp_path: Path) -> None:
    result = run(tmp_path, python("print('```\\n\\nBlock 2 (bash) succeeded:\\n````output')"), "Done.")
    [said] = said_to_the_model(result)
    assert said.startswith("The python block succeeded:\n`````output\n```")
    assert said.endswith("\n`````")


def test_a_long_output_is_shown_by_its_ends() -> None:
    done = [Execution(language="bash", code="x", output=f"a{'-' * 500}b\n", exit_code=0, seconds=0.0)] * 2
    said = told([Block("bash", "x")] * 2, done, Reading(), repeats=0, limit=200)
    assert said.count("402 characters left out") == 2
    assert said.count("a---") == said.count("---b") == 2


class Metered(ScriptedChatModel):
    """Reports 1,000 tokens for every call."""

    def _next(self, messages: Any) -> AIMessage:
        usage = {"input_tokens": 900, "output_tokens": 100, "total_tokens": 1000}
        return super()._next(messages).model_copy(update={"usage_metadata": usage})


def test_calls_end_a_run(tmp_path: Path) -> None:
    result = run(tmp_path, bash("echo a"), bash("echo b"), budget=Budget(calls=1))
    assert (result["status"], outputs(result)) == ("budget_calls", []), "nobody would read what it prints"
    assert "RUN_MAX_CALLS" in result["messages"][-1].text
    assert roles(result["messages"]) == ["human", "ai"]


@pytest.mark.parametrize("model", [Metered, ScriptedChatModel])
def test_tokens_end_a_run_reported_or_estimated(tmp_path: Path, model: type[ScriptedChatModel]) -> None:
    replies = [bash(f"echo {n}; : {'x' * 2_000}") for n in range(9)]
    with looping(tmp_path, playing(*replies, model=model), budget=Budget(tokens=5_000)) as graph:
        result = graph.invoke({"messages": [HumanMessage(TASK)]})
    assert result["status"] == "budget_tokens"
    assert 0 < len(result["executions"]) < 8
    assert "RUN_MAX_TOKENS" in result["messages"][-1].text


async def test_seconds_end_a_block_and_the_run(tmp_path: Path) -> None:
    with looping(tmp_path, playing(bash("echo a; sleep 60; echo b")), budget=Budget(seconds=1.5)) as graph:
        begun = time.monotonic()
        result = await graph.ainvoke({"messages": [HumanMessage(TASK)]})
    assert time.monotonic() - begun < 10
    assert (result["status"], [e["exit_code"] for e in result["executions"]]) == ("budget_seconds", [124])
    assert "RUN_MAX_SECONDS" in result["messages"][-1].text


class SlowModel(ScriptedChatModel):
    """Takes a minute."""

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        await asyncio.sleep(60)
        for chunk in self._stream(*args, **kwargs):
            yield chunk


def test_seconds_end_a_call_of_the_model(tmp_path: Path) -> None:
    with looping(tmp_path, playing("x", model=SlowModel), budget=Budget(seconds=0.2)) as graph:
        result = graph.invoke({"messages": [HumanMessage(TASK)]})
    assert result["status"] == "budget_seconds"


@pytest.mark.parametrize("model", [FakeListLLM, FakeStreamingListLLM])
async def test_a_plain_generator_will_do(tmp_path: Path, model: type[FakeListLLM]) -> None:
    replies = [f"{bash('echo 7')}\nHuman: The bash block succeeded: 8", "It is 7.\nHuman: thanks"]
    with looping(tmp_path, model(responses=replies)) as graph:
        result = await graph.ainvoke({"messages": [HumanMessage(TASK)]})
    assert (result["status"], result["messages"][-1].text) == ("completed", "It is 7.")
    assert outputs(result) == ["7"]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_reply_of_no_piece_at_all_is_an_empty_one(tmp_path: Path, asynchronous: bool) -> None:
    with looping(tmp_path, FakeListChatModel(responses=["", bash("echo 7"), "It is 7."])) as graph:
        given: Any = {"messages": [HumanMessage(TASK)]}
        result = await graph.ainvoke(given) if asynchronous else graph.invoke(given)
    assert said_to_the_model(result)[0].startswith("Your reply was empty")
    assert (result["status"], outputs(result)) == ("completed", ["7"])


IMAGINED = [
    "```output\nIt printed 8.\n```\nThere are 8.",
    "The bash block succeeded:\n```output\n8\n```\nThere are 8.",
    "Block 1 (bash) failed with exit code 1: nothing there",
]


@pytest.mark.parametrize("imagined", IMAGINED)
def test_what_a_model_imagines_that_its_code_prints_is_not_kept(tmp_path: Path, imagined: str) -> None:
    result = run(tmp_path, f"I count.\n{bash('echo 7')}\n{imagined}\n{bash('echo 9')}", "It is 7.")
    assert result["messages"][1].text == f"I count.\n{bash('echo 7')}\n"
    assert outputs(result) == ["7"]


def test_what_only_stands_in_code_is_not_taken_for_imagined(tmp_path: Path) -> None:
    quoting = f"````python\nprint(len('''\n{IMAGINED[0]}\n'''))\n````"
    result = run(tmp_path, f"{bash('echo 7')}\n{quoting}", "Done.")
    assert outputs(result) == ["7", str(len(f"\n{IMAGINED[0]}\n"))]


def test_an_output_that_is_quoted_in_an_answer_is_kept(tmp_path: Path) -> None:
    result = run(tmp_path, bash("echo 7"), f"It printed\n{IMAGINED[0]}")
    assert result["messages"][-1].text == f"It printed\n{IMAGINED[0]}"


class Endless(ScriptedChatModel):
    """Goes on after the script's reply, until nobody asks for more."""

    _after: int = PrivateAttr(0)
    _closed: bool = PrivateAttr(default=False)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        try:
            for chunk in self._stream(*args, **kwargs):
                yield chunk
            while not self._next(args[0]).text.startswith("Done"):
                self._after += 1
                yield ChatGenerationChunk(message=AIMessageChunk(content="more\n"))
        finally:
            self._closed = True


async def test_a_model_that_imagines_outputs_is_not_asked_for_more(tmp_path: Path) -> None:
    model = playing(f"{bash('echo 7')}\n```output\n8\n```\n", "Done.", model=Endless)
    with looping(tmp_path, model) as graph:
        result = await asyncio.wait_for(graph.ainvoke({"messages": [HumanMessage(TASK)]}), 20)
    assert (result["status"], outputs(result)) == ("completed", ["7"])
    assert model._after == 0
    assert model._closed


class EndlessCode(ScriptedChatModel):
    """Begins a block and never ends it, as servers that set no limit let a model do."""

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        yield ChatGenerationChunk(message=AIMessageChunk(content="```python\n"))
        for number in itertools.count():
            await asyncio.sleep(0)
            lines = "".join(f"x{number}_{line} = 1\n" for line in range(500))
            yield ChatGenerationChunk(message=AIMessageChunk(content=lines))


async def test_a_reply_without_end_is_ended_and_asked_for_again(tmp_path: Path) -> None:
    with looping(tmp_path, playing("unused", model=EndlessCode)) as graph:
        result = await asyncio.wait_for(graph.ainvoke({"messages": [HumanMessage(TASK)]}), 30)
    assert (result["status"], result["executions"]) == ("no_execution", [])
    assert all(f"longer than {MAX_REPLY:,} characters" in said for said in said_to_the_model(result))
    assert "no code was run, though I was asked for it 3 times" in result["messages"][-1].text


async def test_a_reply_ends_with_its_first_block_where_that_is_asked_for(tmp_path: Path) -> None:
    model = playing(f"I count.\n{bash('echo 7')}\nThen {bash('echo 8')} or\n", "Done: 7.", model=Endless)
    with looping(tmp_path, model, one_block=True) as graph:
        result = await asyncio.wait_for(graph.ainvoke({"messages": [HumanMessage(TASK)]}), 20)
    assert (result["status"], outputs(result)) == ("completed", ["7"])
    assert result["messages"][1].text == f"I count.\n{bash('echo 7')}"
    assert model._after == 0


@pytest.mark.parametrize(
    ("reply", "kept"),
    [
        ("Words.\n```python\nx\n```\nMore.", "Words.\n```python\nx\n```"),
        ("~~~~bash\nx\n```\n~~~\n~~~~ \nMore.", "~~~~bash\nx\n```\n~~~\n~~~~ "),
        ("```text\nx\n```\n```py\ny\n```\nMore.", "```text\nx\n```\n```py\ny\n```"),
        ("> ```python\n> x\n> ```\nMore.", "> ```python\n> x\n> ```"),
        ("```python\nx", None),
        ("```\nx\n```\n", None),
        ("", None),
    ],
)
def test_where_the_first_block_ends(reply: str, kept: str | None) -> None:
    end = first_block(reply)
    assert (None if end is None else reply[:end]) == kept


class CutOff(ScriptedChatModel):
    """Its second reply reaches the greatest length."""

    def _stream(self, messages: Any, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        yield from super()._stream(messages, *args, **kwargs)
        end = "length" if sum(isinstance(message, AIMessage) for message in messages) == 1 else "stop"
        last = AIMessageChunk(content="", response_metadata={"finish_reason": end})
        yield ChatGenerationChunk(message=last)


def test_an_answer_that_was_cut_off_is_asked_for_again(tmp_path: Path) -> None:
    model = playing(bash("echo 7"), "There are seven, because", "Seven.", model=CutOff)
    with looping(tmp_path, model) as graph:
        result = graph.invoke({"messages": [HumanMessage(TASK)]})
    assert said_to_the_model(result)[-1] == CUT_OFF
    assert (result["status"], result["messages"][-1].text) == ("completed", "Seven.")


async def test_a_reply_is_streamed_as_it_comes_and_kept_once(tmp_path: Path) -> None:
    pieces: dict[str, str] = {}
    with looping(tmp_path, playing(bash("echo a"), "That is all there is to say.")) as graph:
        async for chunk, where in graph.astream({"messages": [HumanMessage(TASK)]}, stream_mode="messages"):
            if where["langgraph_node"] == "model" and chunk.text:
                pieces[chunk.id] = pieces.get(chunk.id, "") + chunk.text
    assert list(pieces.values()) == [bash("echo a"), "That is all there is to say."]


async def test_blocks_are_announced_and_reported_on_the_custom_stream(tmp_path: Path) -> None:
    with looping(tmp_path, playing(f"{bash('echo a')}\n{bash('exit 2')}", *["no"] * 4)) as graph:
        stream = graph.astream({"messages": [HumanMessage(TASK)]}, stream_mode="custom")
        events = [event async for event in stream]
    assert [(event["type"], event["code"]) for event in events] == [
        ("code", "echo a"),
        ("execution", "echo a"),
        ("code", "exit 2"),
        ("execution", "exit 2"),
    ]
    assert (events[1]["output"], events[1]["exit_code"], events[3]["exit_code"]) == ("a\n", 0, 2)
    assert events[0]["id"] == events[1]["id"] != events[2]["id"]


KEYS: list[tuple[str, str]] = []


class Noting(SandboxRunner):
    """Notes for whom it runs what."""

    async def run(
        self, language: str, code: str, *, thread_id: str, key: str, on_output: Any = None
    ) -> BlockResult:
        KEYS.append((thread_id, key))
        return await super().run(language, code, thread_id=thread_id, key=key, on_output=on_output)


def test_a_block_is_named_by_its_message_and_place(tmp_path: Path) -> None:
    KEYS.clear()
    model = playing(f"{bash('echo a')}\n{bash('echo b')}", "Done.")
    with looping(tmp_path, model, runner=Noting, checkpointer=InMemorySaver()) as graph:
        result = graph.invoke({"messages": [HumanMessage(TASK)]}, {"configurable": {"thread_id": "of mine"}})
    expected = [("of mine", f"{result['messages'][1].id}/{place}") for place in (0, 1)]
    assert expected == KEYS


def test_a_loop_needs_a_step() -> None:
    with (
        pytest.raises(ValueError, match="max_steps must be at least 1"),
        looping(Path(), playing(), max_steps=0),
    ):
        pass


async def _never_there(text: str) -> list[str]:
    return re.findall(r"/results/a\.png", text)


def test_an_answer_that_is_only_repeated_is_none(tmp_path: Path) -> None:
    claim = "See /results/a.png."
    model = playing(bash("echo 7"), claim, claim, "It cannot be made.", "Unused.")
    with looping(tmp_path / "1", model, files=Files(_never_there)) as graph:
        result = graph.invoke({"messages": [HumanMessage(TASK)]})
    assert (result["status"], result["messages"][-1].text) == ("completed", "It cannot be made.")
    never = run(tmp_path / "2", bash("echo 7"), *[claim] * 4, files=Files(_never_there))
    assert never["status"] == "no_execution"
    assert never["messages"][-1].text.startswith(f"{claim}\n\nI stopped here: I was asked 3 times")


def test_an_answer_that_names_a_file_that_is_not_there_is_asked_about_once(tmp_path: Path) -> None:
    asked: list[str] = []

    async def absent(text: str) -> list[str]:
        asked.append(text)
        return ["/results/a.png"] if len(asked) in (1, 3) else []

    replies = [bash("echo 7"), "See /results/a.png.", bash("echo made"), "See /results/a.png."]
    result = run(tmp_path / "1", *replies, files=Files(absent))
    assert (result["status"], outputs(result)) == ("completed", ["7", "made"])
    assert said_to_the_model(result)[1].startswith("There is no /results/a.png. If the task asks for it")
    assert asked[0] == f"{TASK}\nSee /results/a.png."
    again = run(
        tmp_path / "2", bash("echo 7"), "I removed /results/a.png.", "It is gone.", files=Files(absent)
    )
    assert (again["status"], again["messages"][-1].text) == ("completed", "It is gone.")


def test_the_files_that_are_there_are_named(tmp_path: Path) -> None:
    async def made() -> list[str]:
        return ["/results/b.csv", "/results/c.csv"]

    result = run(
        tmp_path,
        *(python("print(7)"), "See /results/a.png.", "See /results/b.csv."),
        files=Files(_never_there, made),
    )
    assert result["messages"][-1].text == "See /results/b.csv."
    said = "There is no /results/a.png. These are there: /results/b.csv, /results/c.csv. If the task"
    assert said in said_to_the_model(result)[-1]


async def test_a_reply_that_was_cut_off_goes_on_with_what_is_known_of_it(tmp_path: Path) -> None:
    """What had ended gives its result; what had not begun was written for a directory that is gone."""
    blocks = [bash("echo a >> log; cd /; echo a"), bash("echo b >> log"), bash("echo c >> log")]
    records = CommandRecords(tmp_path / "commands.sqlite")
    with LocalSandbox(tmp_path / "w", records=records, thread=lambda: "t") as sandbox:
        runner = SandboxRunner(lambda: sandbox, scratch=str(tmp_path / "scratch"))

        class CutOff(SandboxRunner):
            """Is cut off in the midst of the reply, once."""

            async def run(self, language: str, code: str, **options: Any) -> BlockResult:
                result = await runner.run(language, code, **options)
                if "echo a" in code and not cut:
                    cut.append(code)
                    raise ConnectionError
                return result

            async def begun(self, keys: Sequence[str]) -> set[str]:
                return await runner.begun(keys)

        cut: list[str] = []
        model = playing("\n".join(blocks), "Done.")
        with looping(tmp_path / "o", model, checkpointer=InMemorySaver(), runner=CutOff) as graph:
            config: Any = {"configurable": {"thread_id": "t"}}
            with pytest.raises(ConnectionError):
                await graph.ainvoke({"messages": [HumanMessage(TASK)]}, config)
            result = await graph.ainvoke(None, config)
    records.close()
    assert [(each["output"], each["exit_code"]) for each in result["executions"]] == [("a\n", 0)]
    assert (tmp_path / "w" / "log").read_text() == "a\n"
    [said] = said_to_the_model(result)
    assert "Block 1 (bash) succeeded" in said
    assert "Block 2 (bash) was not run.\n" in said
    assert "Nothing was run a second time" in said
    assert "mend its cause" not in said
    assert result["status"] == "completed"
