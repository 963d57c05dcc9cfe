"""A call that waits for approval, and what a person may answer.

An answer is `{"decisions": [...]}`, one decision for each request, in order:

    {"type": "approve", "scope": "call"}
    {"type": "reject", "message": "why"}
    {"type": "edit", "edited_action": {"name": ..., "args": {...}}}

`scope` says how far an approval goes: this call (the default), or for the rest of the thread the same call,
`"command"`, or every call of that name, `"tool"` (see `libs.middleware.grants`). A decision may carry the
`digest` of the request it answers; it is then refused for any other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from libs.middleware.visible import visible

__all__ = [
    "Approve",
    "Decision",
    "DecisionType",
    "Edit",
    "EditedAction",
    "Reject",
    "Request",
    "Scope",
    "WrongAnswer",
    "command_digest",
    "digest",
    "read_answer",
]

DecisionType = Literal["approve", "edit", "reject"]

Scope = Literal["call", "command", "tool"]

_MAX_REASON_CHARS = 500

_TAKEN_OUT = "[REDACTED]"
"""What stands where a secret was taken out of an answer."""


class WrongAnswer(ValueError):
    """An answer that does not decide the question. `str(error)` says why, in at most 500 characters."""


class _Decision(BaseModel):
    # Built at the first answer: a graph is made, and most runs end, without one.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    digest: str | None = None
    """Digest of the request that this decision is about, checked when given."""


class Approve(_Decision):
    """Run the call as shown."""

    type: Literal["approve"]
    scope: Scope = "call"


class Reject(_Decision):
    """Do not run the call; the model reads `message`."""

    type: Literal["reject"]
    message: str | None = None


class EditedAction(BaseModel):
    """The call a person wants run instead: the same tool, other arguments."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    name: str
    args: dict[str, Any]


class Edit(_Decision):
    """Run the call with other arguments."""

    type: Literal["edit"]
    edited_action: EditedAction

    @model_validator(mode="before")
    @classmethod
    def _said_twice(cls, sent: Any) -> Any:
        # LangGraph's JavaScript SDK sends the same under a second name.
        if isinstance(sent, dict) and "editedAction" in sent and "edited_action" in sent:
            if sent["editedAction"] != sent["edited_action"]:
                raise ValueError("editedAction and edited_action differ.")
            return {key: value for key, value in sent.items() if key != "editedAction"}
        return sent


Decision = Approve | Reject | Edit


class _Answer(BaseModel):
    # Keys beside `decisions` decide nothing; some pages send their own along.
    model_config = ConfigDict(extra="ignore", strict=True, defer_build=True)

    decisions: list[Annotated[Decision, Field(discriminator="type")]]


@dataclass(frozen=True)
class Request:
    """One call that waits for a decision."""

    name: str
    args: Mapping[str, Any]
    call_id: str
    """Tells this call from every other one of the turn: the tool call id, or message id and block number."""
    args_schema: type[BaseModel] | None = None
    """What edited arguments must satisfy. Without one they may only change values, never keys or types."""

    @property
    def digest(self) -> str:
        """`digest` of this call."""
        return digest(self.name, self.args, self.call_id)

    @property
    def description(self) -> str:
        """The whole call as text, every argument in full, unseen characters made visible.

        Each argument says how many lines it has, so none can pass for the next one.
        """
        parts = [visible(self.name)]
        for key, value in self.args.items():
            text = visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            lines = text.count("\n") + 1
            parts.append(
                f"{visible(key)}: {text}" if lines == 1 else f"{visible(key)} ({lines} lines):\n{text}"
            )
        return "\n\n".join(parts)


def digest(name: str, args: Mapping[str, Any], call_id: str) -> str:
    """Return the SHA-256, as 64 hex digits, over the canonical JSON of one call.

    Raises:
        TypeError: an argument is not JSON.
    """
    return _sha256({"name": name, "args": args, "id": call_id})


def command_digest(name: str, args: Mapping[str, Any]) -> str:
    """As `digest`, without the id: the same for every call with exactly these arguments."""
    return _sha256({"name": name, "args": args})


def _sha256(call: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(call, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_answer(
    answer: object,
    requests: Sequence[Request],
    allowed: Mapping[str, Sequence[DecisionType]],
    *,
    lasting: bool = True,
) -> list[Decision]:
    """Return the decisions in `answer`, one for each request.

    Args:
        answer: what was sent.
        requests: the calls that it decides.
        allowed: for each request's name, the decision types that are offered.
        lasting: whether scopes that outlive the call are offered: something must keep them.

    Raises:
        WrongAnswer: it has another shape, another count, a decision that is not offered, or an edit that
            does not fit its call.
    """
    try:
        decisions: list[Decision] = list(_Answer.model_validate(answer).decisions)
    except ValidationError as error:
        raise WrongAnswer(_reason(error)) from None
    if len(decisions) != len(requests):
        raise WrongAnswer(
            f"{len(decisions)} decisions for {len(requests)} calls: send one for each, in order."
        )
    for index, (decision, request) in enumerate(zip(decisions, requests, strict=True)):
        if problem := _problem(decision, request, allowed[request.name], lasting=lasting):
            raise WrongAnswer(f"decisions[{index}]: {problem}"[:_MAX_REASON_CHARS])
    return decisions


def _problem(
    decision: Decision, request: Request, offered: Sequence[DecisionType], *, lasting: bool
) -> str | None:
    if decision.type not in offered:
        return f"{decision.type!r} is not offered for {request.name}; send one of: {', '.join(offered)}."
    if decision.digest is not None and decision.digest != request.digest:
        return "its digest is that of another call."
    match decision:
        case Approve(scope=scope) if scope != "call" and not lasting:
            return f"scope {scope!r} is not offered here: nothing would keep it. Send 'call'."
        case Edit(edited_action=action):
            return _edit_problem(action, request)
        case _:
            return None


def _edit_problem(action: EditedAction, request: Request) -> str | None:
    if action.name != request.name:
        return f"an edit may change arguments only, not {request.name} into {visible(action.name)}."
    try:
        json.dumps(action.args, sort_keys=True)
    except (TypeError, ValueError) as error:
        return f"edited_action.args must be JSON: {error}."
    if _TAKEN_OUT in json.dumps(action.args) and _TAKEN_OUT not in json.dumps(dict(request.args)):
        return (
            "edited_action.args hold a secret of this installation, which is never kept: what runs would not "
            "be what you wrote. Use a variable of the sandbox's environment."
        )
    known = request.args_schema.model_fields if request.args_schema else request.args
    if unknown := sorted(action.args.keys() - known.keys()):
        return f"{request.name} has no argument {', '.join(map(visible, unknown))}."
    if request.args_schema is not None:
        try:
            request.args_schema.model_validate(action.args)
        except ValidationError as error:
            return f"edited_action.args.{_reason(error)}"
        return None
    for key, value in request.args.items():
        if type(action.args.get(key)) is not type(value):
            return f"edited_action.args.{visible(key)} must be of type {type(value).__name__}."
    return None


def _reason(error: ValidationError) -> str:
    """What is wrong first, and where: `decisions[0].scope: Input should be ...`."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    # A discriminated union names the branch it took (`approve`) after the index; the sender never wrote that.
    path = [
        part
        for position, part in enumerate(first["loc"])
        if position == 0 or not isinstance(first["loc"][position - 1], int)
    ]
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{visible(part)}" for part in path)
    return f"{where.lstrip('.') or 'the answer'}: {first['msg']}"[:_MAX_REASON_CHARS]
