"""Reading answers: valid decisions, reasons for a refusal, and the text of a question."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from libs.middleware.approvals.decisions import (
    Approve,
    Decision,
    Edit,
    Reject,
    WrongAnswer,
    checked,
    decided,
    read_answer,
)
from libs.middleware.approvals.gate_rules import GateRules
from libs.middleware.approvals.question import Request, digest, question_about
from libs.middleware.approvals.visible_text import visible

CALL = Request("execute", {"command": "echo hi"}, "call_1")
RULES = GateRules({"execute": {"allowed_decisions": ["approve", "reject"]}, "edit_file": True})
EDITABLE = Request("edit_file", {"file_path": "/a", "count": 1}, "call_2")


class EditArgs(BaseModel):
    file_path: str
    count: int = 1


SEND = 'Send {"decisions": [{"type": "approve"}]}.'
CHECKED = Request("edit_file", {"file_path": "/a"}, "call_3")


def read(answer: object, request: Request = CALL, *, lasting: bool = True) -> list[Decision]:
    edits = {"edit_file": EditArgs} if request is CHECKED else {}
    return read_answer(answer, question_about([request], RULES.offered, lasting=lasting), edits)


def edit(name: str = "edit_file", **args: object) -> dict[str, object]:
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        ({"type": "approve"}, Approve(type="approve", scope="call", digest=CALL.digest)),
        ({"type": "approve", "scope": "tool"}, Approve(type="approve", scope="tool", digest=CALL.digest)),
        ({"type": "reject", "message": "no"}, Reject(type="reject", message="no", digest=CALL.digest)),
    ],
)
def test_valid_decisions_are_read(decision: object, expected: object) -> None:
    assert read({"decisions": [decision]}) == read(decision) == [expected]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("yes", '"decisions" must be a list with one decision for each call. ' + SEND),
        ([{"type": "approve"}], '"decisions" must be a list with one decision for each call. ' + SEND),
        ({"decisions": {"type": "approve"}}, '"decisions" must be a list'),
        ({"decisions": [{"type": "approve"}] * 2}, "2 decisions for 1 call. " + SEND),
        (
            {"decisions": [{"type": "respond", "message": "x"}]},
            "decisions[0]: 'respond' is not offered; the types are: approve, reject. " + SEND,
        ),
        ({"decisions": ["approve"]}, 'decisions[0]: a decision needs a "type"; the types'),
        ({"type": "approve", "scope": "all"}, "decisions[0].scope: Input should be 'call'"),
        (
            {"type": "reject", "scope": "tool"},
            "decisions[0].scope: there is no such field. " + SEND,
        ),
        ({"type": "approve", "digest": "0" * 64}, "decisions[0]: its digest is that of another"),
        (edit("execute", command="ls"), "decisions[0]: 'edit' is not offered"),
    ],
)
def test_wrong_answers_are_refused_with_the_reason(answer: object, reason: str) -> None:
    with pytest.raises(WrongAnswer) as wrong:
        read(answer)
    assert str(wrong.value).startswith(reason)


@pytest.mark.parametrize(
    ("request_", "decision", "reason"),
    [
        (EDITABLE, edit("execute", file_path="/b", count=1), "may change arguments only"),
        (EDITABLE, edit(file_path="/b", count="1"), "count must be of type int"),
        (EDITABLE, edit(file_path="/b", count=1, mode="w"), "edit_file has no argument mode"),
        (EDITABLE, edit(file_path={1, 2}, count=1), "must be JSON"),
        (CHECKED, edit(count=3), "edited_action.args.file_path: this field is needed"),
        (CHECKED, edit(file_path="/b", mode="w"), "edit_file has no argument mode"),
    ],
)
def test_edits_that_do_not_fit_the_call_are_refused(request_: Request, decision: object, reason: str) -> None:
    with pytest.raises(WrongAnswer, match=reason):
        read({"decisions": [decision]}, request_)


@pytest.mark.parametrize("request_", [EDITABLE, CHECKED])
def test_edits_that_fit_are_read(request_: Request) -> None:
    [decision] = read({"decisions": [edit(file_path="/b", count=2)]}, request_)
    assert isinstance(decision, Edit)
    assert decision.edited_action.args == {"file_path": "/b", "count": 2}


def test_scopes_need_a_place_to_save_grants() -> None:
    answer = {"decisions": [{"type": "approve", "scope": "tool"}]}
    with pytest.raises(WrongAnswer, match="scope 'tool' is not offered here"):
        read(answer, lasting=False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=9,
)


@settings(max_examples=50)
@given(answer=JSON | st.fixed_dictionaries({"decisions": st.lists(JSON)}))
def test_any_json_is_read_or_refused(answer: object) -> None:
    try:
        decisions = read(answer)
    except WrongAnswer as wrong:
        assert 0 < len(str(wrong)) <= 500
    else:
        assert [type(decision) for decision in decisions] in ([Approve], [Reject])


def test_digest_depends_on_name_arguments_and_id() -> None:
    args = {"command": "ls", "timeout": 5}
    assert digest("execute", args, "1") == digest("execute", dict(reversed(args.items())), "1")
    others = [("run", args, "1"), ("execute", {**args, "timeout": 6}, "1"), ("execute", args, "2")]
    assert digest("execute", args, "1") not in {digest(*other) for other in others}


def test_description_holds_the_whole_command() -> None:
    command = "python3 - <<'E'\nprint(1)\nE\n" + "#" * 100_000
    assert command in Request("execute", {"command": command}, "1").description
    assert "a‹U+202E›b" in Request("execute", {"command": "a\u202eb"}, "1").description


def test_multiline_argument_cannot_imitate_another() -> None:
    request = Request("execute", {"command": "rm -rf x\n\ntimeout: 5", "timeout": 900}, "1")
    assert request.description == "execute\n\ncommand (3 lines):\nrm -rf x\n\ntimeout: 5\n\ntimeout: 900"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("echo hi\n\tdone é 日本 👍", "echo hi\n\tdone é 日本 👍"),
        ("a\u200bb\ufeff", "a‹U+200B›b‹U+FEFF›"),
        ("ls\r#", "ls‹U+000D›#"),
        ("\x1b[2K", "‹U+001B›[2K"),
        ("rm\u00a0x\u3000y\u2028", "rm‹U+00A0›x‹U+3000›y‹U+2028›"),
        ("rm a \\ \n b\t\n  \nc  ", "rm a \\‹U+0020›\n b‹U+0009›\n ‹U+0020›\nc ‹U+0020›"),
        ("x\u3164y\ufe0f\U000e0041", "x‹U+3164›y‹U+FE0F›‹U+E0041›"),
    ],
)
def test_invisible_characters_are_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_visible_text_is_printable_and_stable(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    assert all(char.isprintable() or char in "\n\t" for char in shown)


def test_edit_under_two_names_must_agree() -> None:
    once = edit(file_path="/b")
    twice = once | {"editedAction": once["edited_action"]}
    assert read({"decisions": [twice]}, CHECKED) == read({"decisions": [once]}, CHECKED)
    other = once | {"editedAction": {"name": "edit_file", "args": {"file_path": "/etc"}}}
    with pytest.raises(WrongAnswer, match="differ"):
        read({"decisions": [other]}, CHECKED)


def test_checked_answer_decides_only_its_own_calls() -> None:
    decisions = read({"decisions": [edit(file_path="/b", count=2)]}, EDITABLE)
    kept = checked(decisions)
    assert decided(kept, [EDITABLE]) == decisions
    for requests in ([CALL], [EDITABLE, CALL], [Request("edit_file", EDITABLE.args, "another")]):
        with pytest.raises(WrongAnswer, match="other calls wait"):
            decided(kept, requests)
    for unchecked in ({"decisions": [{"type": "approve"}]}, {}, None, "yes"):
        with pytest.raises(WrongAnswer, match="other calls wait"):
            decided(unchecked, [CALL])
    with pytest.raises(WrongAnswer, match="as it was found"):
        decided({"error": "as it was found"}, [CALL])
