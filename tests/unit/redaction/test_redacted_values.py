"""Redaction of messages, commands and other values that contain text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.types import Command, Interrupt, StateUpdate

from libs.redaction import SecretFilter

KEY = "sk-canary-Ab12Cd34"
NUMBER = "481592607384"
KNOWN = SecretFilter({"KEY": KEY, "PIN": NUMBER})
MARK = "[REDACTED]"

plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
values = st.recursive(
    plain | st.text(max_size=8) | st.binary(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        | st.tuples(inner)
    ),
    max_leaves=12,
)


@settings(max_examples=50)
@given(values)
def test_value_without_secrets_is_the_same_object(value: Any) -> None:
    assert KNOWN.values(value) is value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (f"a {KEY}", f"a {MARK}"),
        (f"a {KEY}".encode(), f"a {MARK}".encode()),
        ({KEY, "b"}, {MARK, "b"}),
        ({KEY: 1, "b": {"c": [KEY]}}, {MARK: 1, "b": {"c": [MARK]}}),
        ({"pin": int(NUMBER), "n": 5}, {"pin": MARK, "n": 5}),
        (Command(resume={"decisions": [{"type": "reject", "message": KEY}]}), None),
        (Command(update={"messages": [HumanMessage(KEY)]}), None),
        (StateUpdate({"messages": KEY}, "node"), StateUpdate({"messages": MARK}, "node")),
        (Interrupt(value={"args": KEY}, id="1"), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_secret_is_removed_from_any_container(value: Any, shown: Any) -> None:
    before = repr(value)
    done = KNOWN.values(value)
    assert type(done) is type(value)
    assert KEY not in repr(done)
    assert NUMBER not in repr(done)
    assert MARK in repr(done)
    assert repr(value) == before
    if shown is not None:
        assert done == shown


def test_messages_are_redacted() -> None:
    call = {"name": "execute", "args": {"command": f"echo {KEY}"}, "id": "1", "type": "tool_call"}
    given: list[Any] = [
        HumanMessage([{"type": "text", "text": KEY}]),
        AIMessage("fine", tool_calls=[call]),
        ToolMessage("fine", tool_call_id="1", artifact={"exit_code": 0, "told": KEY}),
        HumanMessage("fine"),
    ]
    done = KNOWN.values({"messages": given})["messages"]
    assert KEY not in json.dumps([message.model_dump() for message in done])
    assert done[1].tool_calls[0]["args"] == {"command": f"echo {MARK}"}
    assert done[2].artifact == {"exit_code": 0, "told": MARK}
    assert done[3] is given[3]
    assert [type(message) for message in done] == [type(message) for message in given]
