"""Asking a person at the terminal, one call at a time."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from agent.show import harmless
from agent.stop import prompting
from libs.middleware.decisions import Request

__all__ = ["Answers", "LeftPending", "PlainAnswers", "ask_person"]

_PROMPT = (
    "[a]pprove; for the rest of the thread [e]xactly this, or any call of the [t]ool {tool};\n"
    "{change}[r]eject, or [q]uit and leave it pending: "
)
_PROMPT_ONCE = "[a]pprove, {change}[r]eject, or [q]uit and leave it pending: "
"""Where an approval holds for this call alone."""
_CHANGE = "[c]hange it first, "
_ANSWERS: Mapping[tuple[str, ...], Mapping[str, str]] = {
    ("a", "approve", "y", "yes"): {"type": "approve"},
    ("e", "exactly"): {"type": "approve", "scope": "command"},
    ("t", "tool"): {"type": "approve", "scope": "tool"},
    ("r", "reject", "n", "no"): {"type": "reject"},
}
_CHANGES = {"type": "edit"}


class LeftPending(Exception):
    """The person did not decide: the calls stay pending. `by_ctrl_c` tells how they left."""

    def __init__(self, *, by_ctrl_c: bool) -> None:
        super().__init__()
        self.by_ctrl_c = by_ctrl_c


class Answers(Protocol):
    """Where a person types. Each method raises `LeftPending` for Ctrl-C and for the end of the input."""

    async def choice(self, prompt: str) -> str:
        """One line. Nothing that was typed before the question was there is taken for an answer."""
        ...

    async def line(self, prompt: str) -> str:
        """One line."""
        ...

    async def edited(self, prompt: str, text: str) -> str:
        """`text` as the person has changed it; it may have any number of lines."""
        ...


async def ask_person(
    question: Mapping[str, Any], show: Callable[[int], None], answers: Answers
) -> list[dict[str, Any]]:
    """A decision for each call of a question.

    Each decision carries the digest of its call, so that it can be taken for no other.

    Args:
        question: the value of the interrupt.
        show: puts the call with this index on the screen.
        answers: where the person types.

    Raises:
        LeftPending: the person quit, closed the input or pressed Ctrl-C.
    """
    if error := question.get("error"):
        _say(f"That answer was not taken: {error}\n")
    allowed = {
        config["action_name"]: config["allowed_decisions"] for config in question.get("review_configs", ())
    }
    requests: Sequence[Mapping[str, Any]] = question["action_requests"]
    decisions: list[dict[str, Any]] = []
    for index, request in enumerate(requests):
        show(index)
        while True:
            decision = await _decision(
                request,
                answers,
                may_change="edit" in allowed.get(request["name"], ()),
                once=question.get("scopes") == ["call"],
            )
            if decision is not None:
                break
        decisions.append({**decision, "digest": request["digest"]})
    return decisions


async def _decision(
    request: Mapping[str, Any], answers: Answers, *, may_change: bool, once: bool
) -> dict[str, Any] | None:
    """What the person decides; None where they have changed the call and do not want that run either."""
    offered = dict(_ANSWERS)
    if may_change:
        offered["c", "change"] = _CHANGES
    if once:
        offered = {keys: decision for keys, decision in offered.items() if "scope" not in decision}
    chosen = await _choice(request["name"], offered, answers)
    if chosen["type"] == "reject":
        reason = await answers.line("Reason, for the model to read (may be empty): ")
        return {**chosen, "message": reason} if reason else dict(chosen)
    if chosen["type"] == "edit":
        return await _changed(request, answers)
    return dict(chosen)


async def _choice(
    tool: str, offered: Mapping[tuple[str, ...], Mapping[str, str]], answers: Answers
) -> Mapping[str, str]:
    change = _CHANGE if _CHANGES in offered.values() else ""
    lasting = any("scope" in decision for decision in offered.values())
    prompt = (_PROMPT if lasting else _PROMPT_ONCE).format(tool=harmless(tool), change=change)
    while True:
        key = (await answers.choice(prompt)).lower()
        if key in ("q", "quit"):
            raise LeftPending(by_ctrl_c=False)
        for keys, decision in offered.items():
            if key in keys:
                return decision
        _say(f"Please answer {', '.join(keys[0][0] for keys in offered)} or q.\n")


async def _changed(request: Mapping[str, Any], answers: Answers) -> dict[str, Any] | None:
    """The call as the person wants it run, shown whole once more and approved."""
    args: dict[str, Any] = {}
    for name, value in request["args"].items():
        args[name] = await _argument(harmless(str(name)), value, answers)
    shown = Request(request["name"], args, "").description
    _say("".join(f"  {line}".rstrip() + "\n" for line in harmless(shown).splitlines()))
    while (key := (await answers.choice("Run this? [y]es, or [n]o and ask again: ")).lower()) not in (
        *("y", "yes"),
        *("n", "no"),
    ):
        _say("Please answer y or n.\n")
    if key.startswith("n"):
        return None
    return {"type": "edit", "edited_action": {"name": request["name"], "args": args}}


async def _argument(name: str, value: Any, answers: Answers) -> Any:
    if isinstance(value, str):
        return await answers.edited(f"{name}: ", value)
    while True:
        given = await answers.edited(f"{name} (JSON): ", json.dumps(value))
        try:
            return json.loads(given)
        except ValueError as error:
            _say(f"That is no JSON: {error}\n")


class PlainAnswers:
    """Reads lines of standard input as the terminal gives them. Implements `Answers`.

    It blocks: for a program that has nothing to do while a person thinks.
    """

    async def choice(self, prompt: str) -> str:
        """See `Answers.choice`."""
        _forget_what_was_typed()
        return _read(prompt)

    async def line(self, prompt: str) -> str:
        """See `Answers.line`."""
        return _read(prompt)

    async def edited(self, prompt: str, text: str) -> str:
        """See `Answers.edited`."""
        from agent.chat.typed import TypedAnswers  # what edits lines is loaded where lines are edited

        return await TypedAnswers().edited(prompt, text)


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
