"""Passes the current tool call to the sandbox: its id, its key, and the artifact of its tool message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

__all__ = ["CurrentCall", "carrying", "current_call"]


@dataclass(slots=True)
class CurrentCall:
    """One tool call. The application sets it around the tool; the tool and its backend read it."""

    id: str | None = None
    """Names the call in the live output."""
    key: str | None = None
    """Identifies the call in its thread (see `Sandbox.run`). None for a call that changes nothing."""
    alone: bool = False
    """Whether nothing of the call goes on after its end: see `Sandbox.run`."""
    recorded: bool = False
    """Whether the call has run already. It must not run again, even if its record is gone."""
    artifact: dict[str, Any] | None = None
    """The artifact of the tool message. Set once, when the result is known."""


_current: ContextVar[CurrentCall | None] = ContextVar("current_call", default=None)


def current_call() -> CurrentCall:
    """Return the current tool call, or an empty `CurrentCall` outside of any call."""
    return _current.get() or CurrentCall()


@contextmanager
def carrying(call_id: str | None, key: str | None, *, alone: bool = False) -> Iterator[CurrentCall]:
    """Set the current tool call for the length of the block."""
    call = CurrentCall(call_id, key, alone)
    token = _current.set(call)
    try:
        yield call
    finally:
        _current.reset(token)
