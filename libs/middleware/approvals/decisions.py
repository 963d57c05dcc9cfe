"""Read and check a person's answer to a question (see `question`).

An answer is `{"decisions": [...]}`, one decision for each request, in order:

    {"type": "approve", "scope": "call"}
    {"type": "reject", "message": "why"}
    {"type": "edit", "edited_action": {"name": ..., "args": {...}}}

For a question about one call, the decision alone is an answer too, as in LangChain's `per_call` mode.

`scope` is `"call"` (the default), or for the rest of the thread `"command"` (the same call) or `"tool"`
(every call of that name; see `grants`). A decision may have the `digest` of its request; it is then refused
for any other request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.json_schema import models_json_schema

from libs.middleware.approvals.question import DecisionType, Request
from libs.middleware.approvals.visible_text import visible

__all__ = [
    "Approve",
    "Decision",
    "Edit",
    "EditedAction",
    "Reject",
    "Scope",
    "WrongAnswer",
    "checked",
    "decided",
    "decision_schema",
    "read_answer",
]

Scope = Literal["call", "command", "tool"]

_MAX_REASON_CHARS = 500
_MAX_SHOWN = 8
"""Decisions in an example."""
_IN_PLAIN_WORDS = {
    "extra_forbidden": "there is no such field",
    "missing": "this field is needed",
    "model_type": "this must be a JSON object",
}
"""Type of a pydantic error -> text. pydantic's own texts of these errors name Python types."""

_TAKEN_OUT = "[REDACTED]"
"""Replaces a secret in an answer."""


class WrongAnswer(ValueError):
    """An answer that does not decide the question. `str(error)` is the reason, at most 500 characters."""


class _Decision(BaseModel):
    # Built at the first answer: most runs need none.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    digest: str | None = None
    """Digest of the request, checked if given."""


class Approve(_Decision):
    """Run the call as shown."""

    type: Literal["approve"]
    scope: Scope = "call"


class Reject(_Decision):
    """Do not run the call. The model gets `message`."""

    type: Literal["reject"]
    message: str | None = None


class EditedAction(BaseModel):
    """The edited call: the same tool with other arguments."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    name: str
    args: dict[str, Any]


class Edit(_Decision):
    """Run the call with other arguments."""

    type: Literal["edit"]
    edited_action: EditedAction

    @model_validator(mode="before")
    @classmethod
    def _drop_second_name(cls, sent: Any) -> Any:
        # LangGraph's JavaScript SDK sends the action under two names.
        if isinstance(sent, dict) and "editedAction" in sent and "edited_action" in sent:
            if sent["editedAction"] != sent["edited_action"]:
                raise ValueError("editedAction and edited_action differ.")
            return {key: value for key, value in sent.items() if key != "editedAction"}
        return sent


Decision = Approve | Reject | Edit


class _Checked(BaseModel):
    model_config = ConfigDict(strict=True, defer_build=True)

    decisions: list[Annotated[Decision, Field(discriminator="type")]]


_KINDS: Mapping[str, type[Decision]] = {"approve": Approve, "reject": Reject, "edit": Edit}


def read_answer(
    answer: object, question: Mapping[str, Any], edits: Mapping[str, type[BaseModel]] = {}
) -> list[Decision]:
    """Return the decisions in `answer`, one for each request of `question`, each with the request's digest.

    Args:
        answer: the answer as it was sent. Some chat pages send keys beside `decisions`, which are ignored.
        question: the value of the interrupt.
        edits: tool name -> schema of edited arguments. For other tools an edit may change values only, not
            keys or types.

    Raises:
        WrongAnswer: the answer has a wrong shape or count, a decision that is not offered, or an edit that
            does not fit its call.
    """
    requests, configs = question["action_requests"], question["review_configs"]
    alone = isinstance(answer, Mapping) and "type" in answer and "decisions" not in answer
    sent = [answer] if alone else answer.get("decisions") if isinstance(answer, Mapping) else None
    if not isinstance(sent, list):
        raise WrongAnswer(f'"decisions" must be a list with one decision for each call. {_example(requests)}')
    if len(sent) != len(requests):
        raise WrongAnswer(f"{len(sent)} decisions for {len(requests)} calls. {_example(requests)}")
    lasting = question.get("scopes") != ["call"]
    bound: list[Decision] = []
    for given, request, config in zip(sent, requests, configs, strict=True):
        where = f"decisions[{len(bound)}]"
        decision = _decision(given, request, config["allowed_decisions"], where, _example(requests))
        if problem := _problem(decision, request, edits.get(request["name"]), lasting=lasting):
            raise WrongAnswer(f"{where}: {problem}"[:_MAX_REASON_CHARS])
        bound.append(decision.model_copy(update={"digest": request["digest"]}))
    return bound


@cache
def decision_schema(offered: tuple[DecisionType, ...]) -> dict[str, Any]:
    """Return the JSON schema of a decision on one call."""
    kinds = [_KINDS[each] for each in offered]
    _, definitions = models_json_schema([(kind, "validation") for kind in kinds])
    return {"oneOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in kinds], **definitions}


def checked(decisions: Sequence[Decision]) -> dict[str, Any]:
    """Return decisions of `read_answer` as JSON for the thread, to be read by `decided`."""
    return {"decisions": [decision.model_dump(exclude_none=True) for decision in decisions]}


def decided(answer: object, requests: Sequence[Request]) -> list[Decision]:
    """Return the decisions of an answer that `checked` has made.

    Raises:
        WrongAnswer: the answer was found wrong where it entered the graph, or is about other calls.
    """
    if isinstance(answer, dict) and "error" in answer:
        raise WrongAnswer(answer["error"])
    try:
        decisions = list(_Checked.model_validate(answer).decisions)
    except ValidationError:
        decisions = []
    if [decision.digest for decision in decisions] != [request.digest for request in requests]:
        raise WrongAnswer("other calls wait than those that were decided on: decide again.")
    return decisions


def _decision(
    sent: object, request: Mapping[str, Any], offered: Sequence[DecisionType], where: str, example: str
) -> Decision:
    """Return the decision that was sent about one request."""
    kind = sent.get("type") if isinstance(sent, Mapping) else None
    if not isinstance(kind, str) or kind not in offered:
        shown = f"{visible(kind)!r} is not offered" if isinstance(kind, str) else 'a decision needs a "type"'
        raise WrongAnswer(f"{where}: {shown[:100]}; the types are: {', '.join(offered)}. {example}")
    try:
        return _KINDS[kind].model_validate(sent)
    except ValidationError as error:
        if kind == "edit":
            edit = {"type": "edit", "edited_action": {"name": request["name"], "args": {}}}
            example = f'Send {json.dumps(edit)} with all arguments under "args".'
        raise WrongAnswer(f"{where}{_reason(error)[:200]}. {example}") from None


def _example(requests: Sequence[Mapping[str, Any]]) -> str:
    """Return an answer of the right shape."""
    decisions: list[Mapping[str, str]] = [{"type": "approve"} for _ in requests[:_MAX_SHOWN]]
    if len(decisions) > 1:
        decisions[1] = {"type": "reject", "message": "why"}
    rest = f" with a decision for each of the {len(requests)} calls" if len(requests) > _MAX_SHOWN else ""
    return f"Send {json.dumps({'decisions': decisions})}{rest}."


def _problem(
    decision: Decision, request: Mapping[str, Any], schema: type[BaseModel] | None, *, lasting: bool
) -> str | None:
    if decision.digest is not None and decision.digest != request["digest"]:
        return "its digest is that of another call."
    match decision:
        case Approve(scope=scope) if scope != "call" and not lasting:
            return f'scope {scope!r} is not offered here: nothing would keep it. Send "call".'
        case Edit(edited_action=action):
            return _edit_problem(action, request["name"], request["args"], schema)
    return None


def _edit_problem(
    action: EditedAction, name: str, args: Mapping[str, Any], schema: type[BaseModel] | None
) -> str | None:
    if action.name != name:
        return f"an edit may change arguments only, not {name} into {visible(action.name)}."
    try:
        written = json.dumps(action.args, sort_keys=True)
    except (TypeError, ValueError) as error:
        return f"edited_action.args must be JSON: {error}."
    if _TAKEN_OUT in written and _TAKEN_OUT not in json.dumps(args):
        return (
            "edited_action.args hold a secret of this installation, which is never kept: what runs would not "
            "be what you wrote. Use a variable of the sandbox's environment."
        )
    if unknown := sorted(action.args.keys() - (schema.model_fields if schema else args).keys()):
        return f"{name} has no argument {', '.join(map(visible, unknown))}."
    if schema is None:
        for key, value in args.items():
            if type(action.args.get(key)) is not type(value):
                return f"edited_action.args.{visible(key)} must be of type {type(value).__name__}."
        return None
    try:
        schema.model_validate(action.args)
    except ValidationError as error:
        return f"edited_action.args{_reason(error)}"
    return None


def _reason(error: ValidationError) -> str:
    """Return place and text of the first error: `.scope: Input should be ...`."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = "".join(f".{visible(str(part))}" for part in first["loc"])
    said = _IN_PLAIN_WORDS.get(first["type"], first["msg"].removeprefix("Value error, "))
    return f"{where}: {said}"
