"""The scripted model: replies, errors of a script, and separate threads."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel, ScriptError, ScriptExhausted

SCRIPT = """\
- text: I shall look at the file first.
  tool_calls:
    - name: read_file
      args: {file_path: /data/a.csv}
    - name: ls
- text: Done.
"""


def test_task_selects_the_conversation() -> None:
    model = ScriptedChatModel(
        conversations=(
            Conversation(when="north", replies=(Reply(text="for the subagent"),)),
            Conversation(replies=(Reply(text="for everybody else"),)),
        )
    )
    assert model.invoke("count the north region").text == "for the subagent"
    assert model.invoke("count").text == "for everybody else"
    model = model.model_copy(update={"conversations": model.conversations[:1]})
    with pytest.raises(ScriptExhausted, match="no conversation fits the task 'south'"):
        model.invoke("south")


def test_script_is_played_out_after_its_last_reply() -> None:
    model = ScriptedChatModel(conversations=(Conversation(when="go", replies=(Reply(text="once"),)),))
    assert not model.played_out([HumanMessage("go")])
    assert model.played_out([HumanMessage("go"), AIMessage("once")])
    assert model.played_out([HumanMessage("unknown")])


async def test_replies_come_in_order_with_unique_call_ids(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(SCRIPT)
    model = ScriptedChatModel.from_file(path)
    pieces = [chunk async for chunk in model.astream("go")]
    assert len(pieces) > 2
    first = model.invoke([HumanMessage("go")])
    for answer in (sum(pieces[1:], pieces[0]), first):
        assert answer.text == "I shall look at the file first."
        calls = [(call["name"], call["args"]) for call in answer.tool_calls]
        assert calls == [("read_file", {"file_path": "/data/a.csv"}), ("ls", {})]
    assert len({call["id"] for answer in (pieces[-2], first) for call in answer.tool_calls}) == 4
    results = [ToolMessage("x", tool_call_id=str(call["id"])) for call in first.tool_calls]
    last = model.invoke([HumanMessage("go"), first, *results])
    assert last.text == "Done."
    with pytest.raises(ScriptExhausted, match=r"script\.yaml: the script has 2 replies .* once more"):
        model.invoke([HumanMessage("go"), first, *results, last, HumanMessage("and now?")])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- text: a\n  tool_calls: [\n", r"line 3"),
        ("- text: a\n- txet: b\n", r"conversations\.0\.replies\.1\.txet"),
        ("text: a\n", r"conversations: Field required"),
    ],
)
def test_error_of_a_script_names_its_place(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(text)
    with pytest.raises(ScriptError, match=rf"(?s)script\.yaml: not a script: .*{problem}"):
        ScriptedChatModel.from_file(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- {txt: hi}", "unknown field txt; allowed: text, tool_calls"),
        ("- {tool_calls: [{tool: ls, name: ls}]}", "unknown field tool; allowed: name, args"),
        ("conversations: [{replies: [], if: x}]", "unknown field if; allowed: replies, when"),
        ("conversation: []", "unknown field conversation; allowed: conversations"),
    ],
)
def test_unknown_field_of_a_script_is_named_with_the_allowed_fields(
    tmp_path: Path, text: str, problem: str
) -> None:
    (tmp_path / "script.yaml").write_text(text)
    with pytest.raises(ScriptError) as caught:
        ScriptedChatModel.from_file(tmp_path / "script.yaml")
    assert problem in str(caught.value)
    assert "pydantic" not in str(caught.value)
