"""Asks a person at the terminal for approvals, one call at a time."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.parts import RuleBook
from agent.run import Approval, LeftPending, Runtime
from agent.terminal.effect_lines import everything
from agent.terminal.harmless_text import harmless
from agent.terminal.rule_choice import write_rule
from agent.terminal.terminal_view import EventView
from libs.middleware.approvals import Request, is_ruled

if TYPE_CHECKING:
    from agent.terminal.typed_answers import TypedAnswers

__all__ = ["Person", "ask_person"]

_HOW = (
    "Type a letter and press Enter; y is {yes}, n is {no}. The model reads a reason after {no}, as in "
    '"{no} use the tables skill".\n'
)
_PROMPT = (
    "[a]pprove; for the rest of the thread [e]xactly this, or any call of the [t]ool {tool};\n"
    "{write}{change}[r]eject, or [q]uit and leave it pending: "
)
_PROMPT_ONCE = "[a]pprove, {write}{change}[r]eject, or [q]uit and leave it pending: "
"""The prompt where a grant for the rest of the thread is not possible."""
_PROMPT_RAN = (
    "[k]eep what it did; for the rest of the thread run [e]xactly this, or any call of the [t]ool {tool},\n"
    "without this question; see [m]ore; {write}[u]ndo it, or [q]uit and leave it pending: "
)
_PROMPT_RAN_ONCE = "[k]eep what it did, see [m]ore, {write}[u]ndo it, or [q]uit and leave it pending: "
"""Prompts for a call that has run already."""
_CHANGE = "[c]hange it first, "
_WRITE = "[w]rite a rule that allows it, "
_ANSWERS: Mapping[tuple[str, ...], Mapping[str, str]] = {
    ("a", "approve", "y", "yes"): {"type": "approve"},
    ("e", "exactly"): {"type": "approve", "scope": "command"},
    ("t", "tool"): {"type": "approve", "scope": "tool"},
    ("r", "reject", "n", "no"): {"type": "reject"},
}
_RAN: Mapping[tuple[str, ...], Mapping[str, str]] = {
    ("k", "keep", "a", "approve", "y", "yes"): {"type": "approve"},
    ("e", "exactly"): {"type": "approve", "scope": "command"},
    ("t", "tool"): {"type": "approve", "scope": "tool"},
    ("m", "more"): {"type": "more"},
    ("u", "undo", "r", "reject", "n", "no"): {"type": "reject"},
}
"""Answers for a call that has run already: the decision to reject it undoes what it did."""
_CHANGES = {"type": "edit"}
_WRITES = {"type": "rule"}


@dataclass(frozen=True, slots=True)
class Person:
    """A person at the terminal."""

    answers: TypedAnswers
    """Reads what the person types."""
    rules: RuleBook
    """Writes the rules that the person chooses."""
    runtime: Runtime | None = None
    """Reads and decodes the pictures that a call has changed. None: they are not drawn."""


async def ask_person(
    approval: Approval, *, view: EventView, person: Person, thread: str
) -> list[dict[str, Any]]:
    """Return a decision for each call of an approval in a thread.

    Each decision carries the digest of its call, so that the gate cannot apply it to another call.

    Raises:
        LeftPending: the person quit, closed the input or pressed Ctrl-C.
    """
    question = approval.question
    if error := question.get("error"):
        _say(f"That answer was not taken: {error}\n")
    allowed = {
        config["action_name"]: config["allowed_decisions"] for config in question.get("review_configs", ())
    }
    requests: Sequence[Mapping[str, Any]] = question["action_requests"]
    decisions: list[dict[str, Any]] = []
    for index, request in enumerate(requests):
        view.show_request(question, index)
        if person.runtime and (effect := request.get("effect") or {}).get("pictures"):
            from agent.terminal.terminal_plots import show_effect  # imports Pillow

            await show_effect(effect, person.runtime, thread, view.console)
        while True:
            decision = await _decision(
                request,
                person,
                thread,
                view=view,
                may_change="edit" in allowed.get(request["name"], ()),
                once=question.get("scopes") == ["call"],
            )
            if decision is not None:
                break
        if decision["type"] == "reject":
            reason = decision.get("message", "")
            done = "undone" if "effect" in request else "rejected"
            view.say(f"  {done}{f': {reason}' if reason else ''}", "yellow")
        decisions.append({**decision, "digest": request["digest"]})
    return decisions


async def _decision(
    request: Mapping[str, Any],
    person: Person,
    thread: str,
    *,
    view: EventView,
    may_change: bool,
    once: bool,
) -> dict[str, Any] | None:
    """Return the person's decision; None to ask again, as the person has decided nothing yet."""
    answers, ran = person.answers, "effect" in request
    offered = dict(_RAN if ran else _ANSWERS)
    if is_ruled(request["name"]):
        offered["w", "write"] = _WRITES
    if may_change and not ran:
        offered["c", "change"] = _CHANGES
    if once:
        offered = {keys: decision for keys, decision in offered.items() if "scope" not in decision}
    chosen, reason = await _choice(request["name"], offered, answers, ran=ran)
    if chosen["type"] == "more":
        view.show_lines(everything(request["effect"]))
        return None
    if chosen["type"] == "reject":
        why = "Why?" if ran else "Why not?"
        reason = reason or await answers.line(f"{why} The model reads this line (Enter: no reason): ")
        return {**chosen, "message": reason} if reason else dict(chosen)
    if chosen["type"] == "edit":
        return await _changed(request, answers)
    if chosen["type"] == "rule":
        written = await write_rule(request, person.rules, answers, thread=thread)
        return {"type": "approve"} if written else None
    return dict(chosen)


async def _choice(
    tool: str, offered: Mapping[tuple[str, ...], Mapping[str, str]], answers: TypedAnswers, *, ran: bool
) -> tuple[Mapping[str, str], str]:
    """Return the decision, and the reason that was typed after it on the same line."""
    change = _CHANGE if _CHANGES in offered.values() else ""
    write = _WRITE if _WRITES in offered.values() else ""
    lasting = any("scope" in decision for decision in offered.values())
    if ran:
        template, how = _PROMPT_RAN if lasting else _PROMPT_RAN_ONCE, _HOW.format(yes="k", no="u")
    else:
        template, how = _PROMPT if lasting else _PROMPT_ONCE, _HOW.format(yes="a", no="r")
    prompt = template.format(tool=harmless(tool), write=write, change=change)
    while True:
        word, _, reason = (await answers.choice(f"{how}{prompt}")).partition(" ")
        if word.lower() in ("q", "quit") and not reason:
            raise LeftPending(by_ctrl_c=False)
        for keys, decision in offered.items():
            if word.lower() in keys and (decision["type"] == "reject" or not reason):
                return decision, reason.strip()
        _say(f"Please answer {', '.join(keys[0][0] for keys in offered)} or q.\n")


async def _changed(request: Mapping[str, Any], answers: TypedAnswers) -> dict[str, Any] | None:
    """Let the person change the call, show the result whole, and ask again; None if refused."""
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


async def _argument(name: str, value: Any, answers: TypedAnswers) -> Any:
    if isinstance(value, str):
        return await answers.edited(f"{name}: ", value)
    while True:
        given = await answers.edited(f"{name} (JSON): ", json.dumps(value))
        try:
            return json.loads(given)
        except ValueError as error:
            _say(f"That is not JSON: {error}\n")


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
