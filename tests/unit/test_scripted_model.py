"""The scripted model: what it plays, what it refuses, and that threads do not disturb each other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool

from libs.models.scripted import Conversation, Reply, ScriptedChatModel, ScriptError, ScriptExhausted, ToolUse

SCRIPT = """\
- text: I shall look at the file first.
  tool_calls:
    - name: read_file
      args: {file_path: /data/a.csv}
    - name: ls
- text: Done.
"""


@tool
def read_file(file_path: str) -> str:
    """Read a file."""
    return file_path


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "script.yaml"
    path.write_text(text)
    return path


def test_plays_replies_in_order_and_says_that_it_is_scripted(tmp_path: Path) -> None:
    model = ScriptedChatModel.from_file(written(tmp_path, SCRIPT))
    assert model._llm_type == "scripted"

    first = model.invoke([HumanMessage("go")])
    assert first.text == "I shall look at the file first."
    assert [(call["name"], call["args"]) for call in first.tool_calls] == [
        ("read_file", {"file_path": "/data/a.csv"}),
        ("ls", {}),
    ]
    results = [ToolMessage("x", tool_call_id=str(call["id"])) for call in first.tool_calls]
    assert model.invoke([HumanMessage("go"), first, *results]).text == "Done."


def test_reads_json(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text('[{"text": "Done."}]')
    assert ScriptedChatModel.from_file(path).invoke("go").text == "Done."


def test_the_place_in_the_script_belongs_to_the_conversation(tmp_path: Path) -> None:
    model = ScriptedChatModel.from_file(written(tmp_path, SCRIPT))
    assert [model.invoke("one").text, model.invoke("two").text] == ["I shall look at the file first."] * 2


def test_two_threads_never_share_a_call_id(tmp_path: Path) -> None:
    model = ScriptedChatModel.from_file(written(tmp_path, SCRIPT))
    ids = [call["id"] for _ in range(2) for call in model.invoke("go").tool_calls]
    assert len(set(ids)) == 4


def test_a_conversation_is_chosen_by_its_task() -> None:
    model = ScriptedChatModel(
        conversations=(
            Conversation(when="north", replies=(Reply(text="for the subagent"),)),
            Conversation(replies=(Reply(text="for everybody else"),)),
        )
    )
    assert model.invoke("count the north region").text == "for the subagent"
    assert model.invoke("count").text == "for everybody else"


def test_a_used_up_script_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, "- text: only one\n")
    model = ScriptedChatModel.from_file(path)
    with pytest.raises(ScriptExhausted, match=r"script\.yaml: the script has 1 replies .* one more"):
        model.invoke([HumanMessage("go"), AIMessage("only one"), HumanMessage("and now?")])


def test_no_fitting_conversation_names_the_task() -> None:
    model = ScriptedChatModel(conversations=(Conversation(when="north", replies=(Reply(),)),))
    with pytest.raises(ScriptExhausted, match="no conversation fits the task 'south'"):
        model.invoke("south")


async def test_streaming_gives_the_same_reply_in_pieces(tmp_path: Path) -> None:
    model = ScriptedChatModel.from_file(written(tmp_path, SCRIPT))
    pieces = [chunk async for chunk in model.astream("go")]
    assert len(pieces) > 2
    whole = pieces[0]
    for piece in pieces[1:]:
        whole += piece
    assert isinstance(whole, AIMessageChunk)
    assert whole.text == "I shall look at the file first."
    assert [(c["name"], c["args"]) for c in whole.tool_calls] == [
        ("read_file", {"file_path": "/data/a.csv"}),
        ("ls", {}),
    ]


def test_bound_tools_are_recorded_and_change_nothing() -> None:
    model = ScriptedChatModel(
        conversations=(Conversation(replies=(Reply(tool_calls=(ToolUse(name="ls"),)),)),)
    )
    bound = model.bind_tools([read_file])
    assert isinstance(bound, ScriptedChatModel)
    assert [entry["function"]["name"] for entry in bound.bound_tools] == ["read_file"]
    assert bound.invoke("go").tool_calls[0]["name"] == "ls"
    assert model.bound_tools == ()


async def test_many_conversations_at_once(tmp_path: Path) -> None:
    model = ScriptedChatModel.from_file(written(tmp_path, SCRIPT))
    answers = await asyncio.gather(*(model.ainvoke("go") for _ in range(20)))
    assert {answer.text for answer in answers} == {"I shall look at the file first."}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- text: a\n  tool_calls: [\n", r"script\.yaml:3: not YAML"),
        ("- text: a\n- txet: b\n", r"script\.yaml:2: not a reply: txet"),
        ("- text: a\n-\n  tool_calls:\n  - args: {}\n", r"script\.yaml:3: not a reply: tool_calls\.0\.name"),
        ("- just words\n", r"script\.yaml:1: not a reply"),
        ("text: a\n", r"script\.yaml:1: a script is a list of replies"),
        ("", r"script\.yaml:1: a script is a list of replies"),
        ("conversations:\n- when: x\n", r"script\.yaml:2: a conversation has `replies`"),
        ("conversations:\n- when: x\n  replies:\n  - text: [a]\n", r"script\.yaml:4: not a reply: text"),
    ],
)
def test_a_bad_script_names_its_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ScriptError, match=problem):
        ScriptedChatModel.from_file(written(tmp_path, text))


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"absent\.yaml: cannot read the script"):
        ScriptedChatModel.from_file(tmp_path / "absent.yaml")
