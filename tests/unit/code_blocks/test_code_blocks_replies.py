"""Replies in the loop: replies without code, answers that are not accepted, and where replies are cut."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel, FakeListLLM, SimpleChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.outputs import ChatGenerationChunk
from pydantic import PrivateAttr

from libs.code_blocks import Files, read_reply, reply_end
from libs.code_blocks.block_reader import MAX_REPLY
from libs.code_blocks.reply_end import first_block
from libs.code_blocks.words_only import CUT_OFF
from libs.models.scripted_model import ScriptedChatModel
from tests.support.code_loops import TASK, bash, looping, outputs, playing, run, said_to_the_model

VENDOR_WORDS = re.compile(r"tool.?use|function.?call|tool.?call", re.IGNORECASE)
BIG = bash("echo big") + "\n" + "x " * (MAX_REPLY // 2)
IMAGINED = [
    "```output\nIt printed 8.\n```\nThere are 8.",
    "The bash block succeeded:\n```output\n8\n```\nThere are 8.",
    "Block 1 (bash) failed with exit code 1: nothing there",
]
NOT_CODE = {
    "untagged": ("```\nwc -l /data/sales.csv\n```", "does not say its language"),
    "typescript": ("```ts\nconst x = 1\n```", "ts cannot run here, only Python and bash can"),
    "a json call": ('{"name": "execute", "arguments": {"command": "ls"}}', "Write code that does the same"),
    "cut off": ("```python\nprint(", "no closing ```"),
    "nested": ("```bash\nls\n```python\nprint(1)\n```", "not clear where it ends"),
    "an empty block": ("```python\n```", "the block was empty"),
    "empty": ("", "Your reply was empty"),
    "only a thought": ("<think>I could run ls.</think>", "Your reply was empty"),
    "too long": (BIG, f"longer than {MAX_REPLY:,} characters"),
}


@pytest.mark.parametrize(("reply", "reason"), NOT_CODE.values(), ids=NOT_CODE)
def test_reply_without_code_gets_a_request_for_code(tmp_path: Path, reply: str, reason: str) -> None:
    result = run(tmp_path, reply, bash("echo 3505"), "There are 3,505 rows.")
    assert (result["status"], outputs(result)) == ("completed", ["3505"])
    asked, _ = said_to_the_model(result)
    assert reason in asked
    assert not VENDOR_WORDS.search(asked)
    assert all(0 < len(message.text.strip()) < MAX_REPLY for message in result["messages"])


def test_run_ends_after_three_requests_for_code(tmp_path: Path) -> None:
    result = run(tmp_path, *["```python\nprint("] * 4)
    assert (result["status"], result["executions"]) == ("no_execution", [])
    assert len(said_to_the_model(result)) == 3
    last = result["messages"][-1].text
    assert "no code was run, though I was asked for it 3 times" in last
    assert not VENDOR_WORDS.search(last)
    counted = run(tmp_path / "2", "", "", max_steps=2)
    assert (counted["status"], len(said_to_the_model(counted))) == ("max_steps", 1), "asking is a step"


def test_answer_before_any_code_is_questioned_once(tmp_path: Path) -> None:
    guess = "I have counted the rows: there are 3,505."
    counted = run(tmp_path / "1", guess, bash("echo 3,506"), "There are 3,506.")
    assert (counted["status"], outputs(counted)) == ("completed", ["3,506"])
    assert said_to_the_model(counted)[0].startswith("Nothing has been run yet for the latest request.")
    hello = run(tmp_path / "2", "Hello!", "Hello! What can I do?", task="Hello!")
    assert (hello["status"], hello["messages"][-1].text) == ("completed", "Hello! What can I do?")


def test_answer_may_contain_data_blocks(tmp_path: Path) -> None:
    answer = 'The table:\n\n    a 1\n\n```text\n5\n```\n\n```json\n{"a": 5}\n```'
    result = run(tmp_path, bash("echo 5"), answer)
    assert (result["status"], result["messages"][-1].text) == ("completed", answer)


@pytest.mark.parametrize(
    "answer",
    [
        "In JavaScript:\n```js\n1\n```",
        '{"name": "mean", "parameters": {"column": "units"}, "value": 5}',
        "I count them:\n```\nprint(len(rows))\n```",
    ],
)
def test_possible_code_in_an_answer_is_questioned_once(tmp_path: Path, answer: str) -> None:
    result = run(tmp_path, bash("echo 5"), answer, answer)
    assert (result["status"], len(said_to_the_model(result))) == ("completed", 2)
    assert result["messages"][-1].text == answer


def test_answer_after_a_failure_is_not_accepted(tmp_path: Path) -> None:
    result = run(tmp_path, bash("exit 3"), "It worked.", "Really.", "Yes.", "I said so.")
    assert result["status"] == "no_execution"
    assert "The last code failed and nothing has run since" in said_to_the_model(result)[1]
    assert result["messages"][-1].text.startswith("I said so.\n\nI stopped here: I was asked 3 times")
    assert "The last code failed." in result["messages"][-1].text


async def test_text_generator_can_be_the_model(tmp_path: Path) -> None:
    replies = [f"{bash('echo 7')}\nHuman: The bash block succeeded: 8", "It is 7.\nHuman: thanks"]
    with looping(tmp_path, FakeListLLM(responses=replies)) as graph:
        result = await graph.ainvoke({"messages": [HumanMessage(TASK)]})
    assert (result["status"], result["messages"][-1].text) == ("completed", "It is 7.")
    assert outputs(result) == ["7"]


async def test_stream_without_chunks_is_an_empty_reply(tmp_path: Path) -> None:
    with looping(tmp_path, FakeListChatModel(responses=["", bash("echo 7"), "It is 7."])) as graph:
        result = await graph.ainvoke({"messages": [HumanMessage(TASK)]})
    assert said_to_the_model(result)[0].startswith("Your reply was empty")
    assert (result["status"], outputs(result)) == ("completed", ["7"])


class Whole(SimpleChatModel):
    """A model that cannot stream."""

    replies: list[str]

    @property
    def _llm_type(self) -> str:
        return "whole"

    def _call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
        return self.replies.pop(0)


async def test_model_that_cannot_stream_is_asked_as_well(tmp_path: Path) -> None:
    with looping(tmp_path, Whole(replies=[bash("echo 7"), "It is 7."])) as graph:
        result = await graph.ainvoke({"messages": [HumanMessage(TASK)]})
    assert (result["status"], outputs(result)) == ("completed", ["7"])


@pytest.mark.parametrize("imagined", IMAGINED)
def test_invented_output_is_cut_off(tmp_path: Path, imagined: str) -> None:
    result = run(tmp_path, f"I count.\n{bash('echo 7')}\n{imagined}\n{bash('echo 9')}", "It is 7.")
    assert result["messages"][1].text == f"I count.\n{bash('echo 7')}\n"
    assert outputs(result) == ["7"]


def test_output_text_inside_code_is_kept(tmp_path: Path) -> None:
    quoting = f"````python\nprint(len('''\n{IMAGINED[0]}\n'''))\n````"
    result = run(tmp_path, f"{bash('echo 7')}\n{quoting}", "Done.")
    assert outputs(result) == ["7", str(len(f"\n{IMAGINED[0]}\n"))]


class Endless(ScriptedChatModel):
    """Continues after the script's reply until the stream is closed."""

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


class EndlessCode(ScriptedChatModel):
    """Begins a block and never ends. Servers without a limit allow that."""

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        yield ChatGenerationChunk(message=AIMessageChunk(content="```python\n"))
        for number in itertools.count():
            await asyncio.sleep(0)
            lines = "".join(f"x{number}_{line} = 1\n" for line in range(500))
            yield ChatGenerationChunk(message=AIMessageChunk(content=lines))


async def test_endless_reply_is_cut_and_requested_again(tmp_path: Path) -> None:
    with looping(tmp_path, playing("unused", model=EndlessCode)) as graph:
        result = await asyncio.wait_for(graph.ainvoke({"messages": [HumanMessage(TASK)]}), 30)
    assert (result["status"], result["executions"]) == ("no_execution", [])
    assert all(f"longer than {MAX_REPLY:,} characters" in said for said in said_to_the_model(result))
    assert "no code was run, though I was asked for it 3 times" in result["messages"][-1].text


async def test_one_block_cuts_replies_after_the_first_block(tmp_path: Path) -> None:
    model = playing(f"I count.\n{bash('echo 7')}\nThen {bash('echo 8')} or\n", "Done: 7.", model=Endless)
    with looping(tmp_path, model, one_block=True) as graph:
        result = await asyncio.wait_for(graph.ainvoke({"messages": [HumanMessage(TASK)]}), 20)
    assert (result["status"], outputs(result)) == ("completed", ["7"])
    assert result["messages"][1].text == f"I count.\n{bash('echo 7')}"
    assert (model._after, model._closed) == (0, True)


@pytest.mark.parametrize("one_block", [True, False])
def test_reply_is_not_cut_inside_a_here_document(tmp_path: Path, one_block: bool) -> None:
    readme = bash("cat <<'EOF'\na\nEOF\ncat > b <<'EOF'\n```\nls\n```\nIt prints:\n```output\na\n```\nEOF")
    result = run(tmp_path, readme, bash("ls"), "Done.", one_block=one_block)
    assert "not clear where it ends" in said_to_the_model(result)[0]
    assert outputs(result) == [""], "nothing was written"


def test_reply_is_cut_after_a_here_document_with_an_indented_end(tmp_path: Path) -> None:
    reply = bash("cat <<'EOF'\n7\n  EOF") + "\n```output\n7\n```\n" + bash("echo 8")
    assert ["8" in output for output in outputs(run(tmp_path, reply, "Done."))] == [False]


def test_one_block_reads_a_reply_of_many_fences_to_its_end(tmp_path: Path) -> None:
    """To try each fence would take minutes."""
    reply = "```\n```\n" * 1_000 + f"{bash('echo 7')}\n{bash('echo 8')}"
    assert outputs(run(tmp_path, reply, "Done.", one_block=True)) == ["7", "8"]


def test_block_with_a_here_document_that_shows_another_is_not_cut_in_two(tmp_path: Path) -> None:
    readme = bash("cat > readme <<'EOF'\nRun this:\n    cat <<EOF\n    EOF\nor\n```\nls\n```\nEOF")
    result = run(tmp_path, readme, bash("ls"), "Done.")
    assert "not clear where it ends" in said_to_the_model(result)[0]
    assert outputs(result) == [""], "nothing was written"


def test_each_beginning_of_a_reply_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream asks for the end after each line. To parse all beginnings again would take a minute."""
    parsed: list[str] = []
    monkeypatch.setattr(reply_end, "read_reply", lambda text: parsed.append(text) or read_reply(text))
    lines = "```bash\ncat <<'EOF' > once\n" + "```\na\nb\n" * 40
    ends = [place for place, character in enumerate(lines) if character == "\n"]
    names = ("one", "other")  # of two replies that come at the same time
    assert {first_block(lines[:end].replace("once", name)) for end in ends for name in names} == {None}
    assert len(parsed) == 80


def test_one_block_cuts_a_reply_with_other_line_ends(tmp_path: Path) -> None:
    reply = f"{bash('echo 7')}\n{bash('echo 8')}".replace("\n", "\r\n")
    assert outputs(run(tmp_path, reply, "Done.", one_block=True)) == ["7"]


class CutOff(ScriptedChatModel):
    """The second reply reaches the greatest length."""

    def _stream(self, messages: Any, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        yield from super()._stream(messages, *args, **kwargs)
        end = "length" if sum(isinstance(message, AIMessage) for message in messages) == 1 else "stop"
        last = AIMessageChunk(content="", response_metadata={"finish_reason": end})
        yield ChatGenerationChunk(message=last)


def test_answer_at_the_length_limit_is_requested_again(tmp_path: Path) -> None:
    model = playing(bash("echo 7"), "There are seven, because", "Seven.", model=CutOff)
    with looping(tmp_path, model) as graph:
        result = graph.invoke({"messages": [HumanMessage(TASK)]})
    assert said_to_the_model(result)[-1] == CUT_OFF
    assert (result["status"], result["messages"][-1].text) == ("completed", "Seven.")


async def test_reply_is_streamed_and_kept_once(tmp_path: Path) -> None:
    pieces: dict[str, str] = {}
    with looping(tmp_path, playing(bash("echo a"), "That is all there is to say.")) as graph:
        async for chunk, where in graph.astream({"messages": [HumanMessage(TASK)]}, stream_mode="messages"):
            if where["langgraph_node"] == "model" and chunk.text:
                pieces[chunk.id] = pieces.get(chunk.id, "") + chunk.text
    assert list(pieces.values()) == [bash("echo a"), "That is all there is to say."]


async def _made() -> list[str]:
    return ["/results/b.csv"]


async def _never_there(text: str) -> list[str]:
    return re.findall(r"/results/a\.png", text)


def test_repeated_answer_with_missing_files_is_not_accepted(tmp_path: Path) -> None:
    claim = "See /results/a.png."
    model = playing(bash("echo 7"), claim, claim, "It cannot be made.", "Unused.")
    with looping(tmp_path / "1", model, files=Files(_never_there, _made)) as graph:
        result = graph.invoke({"messages": [HumanMessage(TASK)]})
    assert (result["status"], result["messages"][-1].text) == ("completed", "It cannot be made.")
    never = run(tmp_path / "2", bash("echo 7"), *[claim] * 4, files=Files(_never_there, _made))
    assert never["status"] == "no_execution"
    assert never["messages"][-1].text.startswith(f"{claim}\n\nI stopped here: I was asked 3 times")


def test_answer_with_a_missing_file_is_questioned_once(tmp_path: Path) -> None:
    asked: list[str] = []

    async def absent(text: str) -> list[str]:
        asked.append(text)
        return ["/results/a.png"] if len(asked) in (1, 3) else []

    replies = [bash("echo 7"), "See /results/a.png.", bash("echo made"), "See /results/a.png."]
    result = run(tmp_path / "1", *replies, files=Files(absent, _made))
    assert (result["status"], outputs(result)) == ("completed", ["7", "made"])
    assert said_to_the_model(result)[1].startswith(
        "There is no /results/a.png. These are there: /results/b.csv. If the task asks for it"
    )
    assert asked[0] == f"{TASK}\nSee /results/a.png."
    again = run(
        tmp_path / "2", bash("echo 7"), "I removed /results/a.png.", "It is gone.", files=Files(absent, _made)
    )
    assert (again["status"], again["messages"][-1].text) == ("completed", "It is gone.")
