"""Reading answers: what decides a question, what is refused and why, what is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from libs.middleware.decisions import Approve, Edit, Reject, Request, WrongAnswer, digest, read_answer
from libs.middleware.visible import visible

CALL = Request("execute", {"command": "echo hi"}, "call_1")
ALLOWED = {"execute": ("approve", "reject"), "edit_file": ("approve", "reject", "edit")}
EDITABLE = Request("edit_file", {"file_path": "/a", "count": 1}, "call_2")


class EditArgs(BaseModel):
    file_path: str
    count: int = 1


CHECKED = Request("edit_file", {"file_path": "/a"}, "call_3", EditArgs)


def edit(name: str = "edit_file", **args: object) -> dict[str, object]:
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        ({"type": "approve"}, Approve(type="approve", scope="call")),
        ({"type": "approve", "scope": "call"}, Approve(type="approve", scope="call")),
        ({"type": "approve", "scope": "command"}, Approve(type="approve", scope="command")),
        ({"type": "approve", "scope": "tool"}, Approve(type="approve", scope="tool")),
        ({"type": "approve", "digest": CALL.digest}, Approve(type="approve", digest=CALL.digest)),
        ({"type": "reject"}, Reject(type="reject")),
        ({"type": "reject", "message": "no"}, Reject(type="reject", message="no")),
    ],
)
def test_reads_decisions(decision: object, expected: object) -> None:
    assert read_answer({"decisions": [decision]}, [CALL], ALLOWED) == [expected]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("yes", "the answer: Input should be"),
        (None, "the answer: Input should be"),
        ([{"type": "approve"}], "the answer: Input should be"),
        ({}, "decisions: Field required"),
        ({"decisions": {"type": "approve"}}, "decisions: Input should be a valid list"),
        ({"decisions": []}, "0 decisions for 1 calls"),
        ({"decisions": [{"type": "approve"}] * 2}, "2 decisions for 1 calls"),
        ({"decisions": ["approve"]}, "decisions[0]: "),
        ({"decisions": [{}]}, "decisions[0]: Unable to extract tag"),
        ({"decisions": [{"type": "respond", "message": "x"}]}, "decisions[0]: Input tag 'respond'"),
        (
            {"decisions": [{"type": "approve", "edited_action": {}}]},
            "decisions[0].edited_action: Extra inputs",
        ),
        (
            {"decisions": [{"type": "reject", "message": 7}]},
            "decisions[0].message: Input should be a valid string",
        ),
        ({"decisions": [{"type": "approve", "scope": "all"}]}, "decisions[0].scope: Input should be 'call'"),
        ({"decisions": [{"type": "approve", "scope": None}]}, "decisions[0].scope: Input should be 'call'"),
        ({"decisions": [{"type": "reject", "scope": "tool"}]}, "decisions[0].scope: Extra inputs"),
        ({"decisions": [edit() | {"scope": "command"}]}, "decisions[0].scope: Extra inputs"),
        (
            {"decisions": [{"type": "approve", "digest": "0" * 64}]},
            "decisions[0]: its digest is that of another",
        ),
        ({"decisions": [edit("execute", command="ls")]}, "decisions[0]: 'edit' is not offered for execute"),
        ({"decisions": [{"type": "edit"}]}, "decisions[0].edited_action: Field required"),
        ({"decisions": [{"type": "approve"}, {"type": "no"}]}, "decisions[1]: Input tag 'no'"),
    ],
)
def test_refuses_with_the_reason(answer: object, reason: str) -> None:
    with pytest.raises(WrongAnswer) as wrong:
        read_answer(answer, [CALL], ALLOWED)
    assert str(wrong.value).startswith(reason)


@pytest.mark.parametrize(
    ("request_", "decision", "reason"),
    [
        (EDITABLE, edit("execute", file_path="/b", count=1), "may change arguments only"),
        (EDITABLE, edit(file_path="/b", count="1"), "count must be of type int"),
        (EDITABLE, edit(file_path="/b"), "count must be of type int"),
        (EDITABLE, edit(file_path="/b", count=1, mode="w"), "edit_file has no argument mode"),
        (EDITABLE, edit(file_path={1, 2}, count=1), "must be JSON"),
        (CHECKED, edit(file_path=3), "edited_action.args.file_path: Input should be a valid string"),
        (CHECKED, edit(count=3), "edited_action.args.file_path: Field required"),
        (CHECKED, edit(file_path="/b", mode="w"), "edit_file has no argument mode"),
    ],
)
def test_refuses_edits_that_do_not_fit_the_call(request_: Request, decision: object, reason: str) -> None:
    with pytest.raises(WrongAnswer, match=reason):
        read_answer({"decisions": [decision]}, [request_], ALLOWED)


@pytest.mark.parametrize("request_", [EDITABLE, CHECKED])
def test_takes_edits_that_fit(request_: Request) -> None:
    [decision] = read_answer({"decisions": [edit(file_path="/b", count=2)]}, [request_], ALLOWED)
    assert isinstance(decision, Edit)
    assert decision.edited_action.args == {"file_path": "/b", "count": 2}


def test_where_nothing_keeps_approvals_only_the_call_can_be_approved() -> None:
    answer = {"decisions": [{"type": "approve", "scope": "tool"}]}
    with pytest.raises(WrongAnswer, match="scope 'tool' is not offered here"):
        read_answer(answer, [CALL], ALLOWED, lasting=False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(answer=JSON | st.fixed_dictionaries({"decisions": st.lists(JSON)}))
def test_reads_or_refuses_whatever_is_sent(answer: object) -> None:
    try:
        decisions = read_answer(answer, [CALL], ALLOWED)
    except WrongAnswer as wrong:
        assert 0 < len(str(wrong)) <= 500
    else:
        assert [type(decision) for decision in decisions] in ([Approve], [Reject])


def test_the_digest_tells_calls_apart_and_nothing_else() -> None:
    args = {"command": "ls", "timeout": 5}
    assert digest("execute", args, "1") == digest("execute", dict(reversed(args.items())), "1")
    others = [("run", args, "1"), ("execute", {**args, "timeout": 6}, "1"), ("execute", args, "2")]
    assert digest("execute", args, "1") not in {digest(*other) for other in others}


def test_the_description_holds_the_whole_command() -> None:
    command = "python3 - <<'E'\nprint(1)\nE\n" + "#" * 100_000
    assert command in Request("execute", {"command": command}, "1").description


def test_no_argument_passes_for_another() -> None:
    request = Request("execute", {"command": "rm -rf x\n\ntimeout: 5", "timeout": 900}, "1")
    assert request.description == "execute\n\ncommand (3 lines):\nrm -rf x\n\ntimeout: 5\n\ntimeout: 900"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("echo hi\n\tdone é 日本 👍", "echo hi\n\tdone é 日本 👍"),
        ("a\u202eb", "a‹U+202E›b"),
        ("a\u200bb\ufeff", "a‹U+200B›b‹U+FEFF›"),
        ("ls\r#", "ls‹U+000D›#"),
        ("\x1b[2K", "‹U+001B›[2K"),
        ("rm\u00a0x\u3000y\u2028", "rm‹U+00A0›x‹U+3000›y‹U+2028›"),
        ("rm a \\ \n b\t\n  \nc  ", "rm a \\‹U+0020›\n b‹U+0009›\n ‹U+0020›\nc ‹U+0020›"),
        ("x\u3164y\ufe0f\U000e0041", "x‹U+3164›y‹U+FE0F›‹U+E0041›"),
    ],
)
def test_makes_unseen_characters_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_what_is_visible_stays_so(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    assert all(char.isprintable() or char in "\n\t" for char in shown)


def test_takes_an_edit_that_is_sent_under_two_names_where_both_say_the_same() -> None:
    once = edit(file_path="/b")
    twice = once | {"editedAction": once["edited_action"]}
    assert read_answer({"decisions": [twice]}, [CHECKED], ALLOWED) == read_answer(
        {"decisions": [once]}, [CHECKED], ALLOWED
    )
    other = once | {"editedAction": {"name": "edit_file", "args": {"file_path": "/etc"}}}
    with pytest.raises(WrongAnswer, match="differ"):
        read_answer({"decisions": [other]}, [CHECKED], ALLOWED)
