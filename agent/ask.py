"""Asking a person at the terminal, one call at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent.stop import prompting

__all__ = ["LeftPending", "ask_person"]

_PROMPT = (
    "[a]pprove; for the rest of the thread [e]xactly this, or any call of the [t]ool {tool};\n"
    "[r]eject, or [q]uit and leave it pending: "
)
_PROMPT_ONCE = "[a]pprove, [r]eject, or [q]uit and leave it pending: "
"""Where an approval holds for this call alone."""
_ANSWERS: Mapping[tuple[str, ...], Mapping[str, str]] = {
    ("a", "approve", "y", "yes"): {"type": "approve"},
    ("e", "exactly"): {"type": "approve", "scope": "command"},
    ("t", "tool"): {"type": "approve", "scope": "tool"},
    ("r", "reject", "n", "no"): {"type": "reject"},
}


class LeftPending(Exception):
    """The person did not decide: the calls stay pending. `by_ctrl_c` tells how they left."""

    def __init__(self, *, by_ctrl_c: bool) -> None:
        super().__init__()
        self.by_ctrl_c = by_ctrl_c


def ask_person(question: Mapping[str, Any], show: Callable[[int], None]) -> list[dict[str, Any]]:
    """A decision for each call of a question; blocks until the person has answered.

    Each decision carries the digest of its call, so that it can be taken for no other.

    Args:
        question: the value of the interrupt.
        show: puts the call with this index on the screen.

    Raises:
        LeftPending: the person quit, closed the input or pressed Ctrl-C.
    """
    if error := question.get("error"):
        _say(f"That answer was not taken: {error}\n")
    requests: Sequence[Mapping[str, Any]] = question["action_requests"]
    decisions: list[dict[str, Any]] = []
    for index, request in enumerate(requests):
        show(index)
        choice = _choice(request["name"], once=question.get("scopes") == ["call"])
        decision: dict[str, Any] = {**choice, "digest": request["digest"]}
        if decision["type"] == "reject" and (
            reason := _read("Reason, for the model to read (may be empty): ")
        ):
            decision["message"] = reason
        decisions.append(decision)
    return decisions


def _choice(tool: str, *, once: bool) -> Mapping[str, str]:
    _forget_what_was_typed()
    while True:
        key = _read(_PROMPT_ONCE if once else _PROMPT.format(tool=tool)).lower()
        if key in ("q", "quit"):
            raise LeftPending(by_ctrl_c=False)
        for keys, decision in _ANSWERS.items():
            if key in keys and not (once and "scope" in decision):
                return decision
        _say(f"Please answer {'a, r' if once else 'a, e, t, r'} or q.\n")


def _forget_what_was_typed() -> None:
    """Drop keys pressed before the question was there: they cannot have been an answer to it."""
    try:
        import termios
    except ImportError:  # Windows
        return
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _read(prompt: str) -> str:
    try:
        with prompting():
            _say(prompt)
            line = sys.stdin.readline()
    except KeyboardInterrupt:
        raise LeftPending(by_ctrl_c=True) from None
    if not line:
        raise LeftPending(by_ctrl_c=False)
    return line.strip()


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
