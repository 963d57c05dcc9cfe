"""Approvals that hold for the rest of a thread: "this exact command", or "this tool".

They are kept in a channel of the outermost graph, so in the thread's checkpoint: on the host, shown with the
thread's state, gone with the thread. No input schema has the channel. `libs.middleware.answers` writes it
together with the answer that grants, where the answer enters the graph. Nothing else writes it, so nothing
that a model, file or page says can; and what is granted to a subagent is the thread's at once.

A call goes unasked where a grant covers it that held when the model made the call, and holds still. So what
one answer grants never takes away a question that another answer, sent with it, decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langgraph._internal._constants import NULL_TASK_ID
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple
from pydantic import BaseModel
from typing_extensions import TypedDict

from libs.middleware.decisions import (
    Approve,
    Decision,
    Request,
    WrongAnswer,
    command_digest,
    read_answer,
)

__all__ = [
    "GRANTS",
    "Grant",
    "Granted",
    "Grants",
    "Held",
    "decided",
    "granted_by",
    "revoke",
    "shown",
    "standing",
    "standing_in",
]

GRANTS = "grants"
"""The channel: key of a grant -> the grant, or None once it was revoked. Its reducer is `operator.or_`."""


class Grant(TypedDict):
    """What a person has approved for the rest of a thread."""

    tool: str
    """The name of the calls. `execute_code` is one tool: its Python can run bash anyway."""
    digest: str | None
    """`command_digest` of the only call that is covered; None: every call of the tool."""
    shown: str
    """The call that the person saw, whole."""
    question: str
    """Id of the interrupt that was answered. Tells a grant from one that was revoked and given again."""


Grants = Mapping[str, Grant | None]


@dataclass(frozen=True)
class Granted:
    """A call that runs without a question, and which kind of grant covers it."""

    scope: Literal["command", "tool"]


@dataclass(frozen=True)
class Held:
    """The grants that count for the calls of one reply."""

    now: Grants = field(default_factory=dict)
    """Those of the thread."""
    at_reply: Grants = field(default_factory=dict)
    """Those of the thread when the reply was made."""

    def covering(self, request: Request) -> Granted | None:
        """What lets a call run unasked."""
        scopes: dict[Literal["command", "tool"], str] = {
            "command": _key(request.name, command_digest(request.name, request.args)),
            "tool": _key(request.name, None),
        }
        for scope, key in scopes.items():
            if (grant := self.now.get(key)) and grant == self.at_reply.get(key):
                return Granted(scope)
        return None


@dataclass(frozen=True)
class _Asked(Request):
    """A request as its question tells of it."""

    shown_digest: str = ""

    @property
    def digest(self) -> str:
        return self.shown_digest


def decided(
    answer: object, question: Mapping[str, Any], edits: Mapping[str, type[BaseModel]]
) -> list[tuple[Request, Decision]]:
    """The requests of a question as it tells of them, each with what an answer decides.

    Args:
        answer: what a person sent.
        question: the value of the interrupt that it answers.
        edits: tool name -> what edited arguments must satisfy, as the gate has it.

    Raises:
        WrongAnswer: it does not decide the question.
    """
    requests: list[Request] = [
        _Asked(asked["name"], asked["args"], "", edits.get(asked["name"]), asked.get("digest", ""))
        for asked in question["action_requests"]
    ]
    allowed = {config["action_name"]: config["allowed_decisions"] for config in question["review_configs"]}
    return list(zip(requests, read_answer(answer, requests, allowed), strict=True))


def granted_by(
    answer: object, question: object, question_id: str, edits: Mapping[str, type[BaseModel]]
) -> dict[str, Grant]:
    """The grants that an answer gives: key -> grant. None where it does not decide the question.

    Args:
        answer: what a person sent.
        question: the value of the interrupt that it answers.
        question_id: the id of that interrupt.
        edits: tool name -> what edited arguments must satisfy, as the gate has it.
    """
    if not isinstance(question, dict) or not {"action_requests", "review_configs"} <= question.keys():
        return {}
    try:
        decisions = decided(answer, question, edits)
    except WrongAnswer:
        return {}
    grants: dict[str, Grant] = {}
    for request, decision in decisions:
        if isinstance(decision, Approve) and decision.scope != "call":
            exact = command_digest(request.name, request.args) if decision.scope == "command" else None
            grants[_key(request.name, exact)] = Grant(
                tool=request.name, digest=exact, shown=request.description, question=question_id
            )
    return grants


def standing(grants: Grants | None) -> dict[str, Grant]:
    """Those that were not revoked, in the order in which they were given."""
    return {key: grant for key, grant in (grants or {}).items() if grant}


def shown(grants: Grants | None) -> list[dict[str, Any]]:
    """What people and programs are told of those."""
    keys = ("tool", "digest", "shown")
    return [{key: grant[key] for key in keys} for grant in standing(grants).values()]  # type: ignore[literal-required]


def standing_in(saved: CheckpointTuple) -> dict[str, Grant]:
    """The standing grants of a thread, from its latest checkpoint."""
    grants: dict[str, Grant | None] = dict(saved.checkpoint["channel_values"].get(GRANTS) or {})
    for channel, value in _beside(saved):
        if channel == GRANTS:
            grants |= value
    return standing(grants)


async def revoke(checkpointer: BaseCheckpointSaver[Any], saved: CheckpointTuple, keys: Sequence[str]) -> None:
    """Take grants back. Questions that wait stay as they are; a call that is then not covered is asked about.

    Nobody may run the thread meanwhile.
    """
    # As LangGraph keeps a `Command(update=...)`: writes beside the latest checkpoint, which are numbered, so
    # the ones that are there come first. An update of the state would make a new checkpoint, on which the
    # subagents that wait would begin anew.
    writes = [*_beside(saved), (GRANTS, dict.fromkeys(keys))]
    await checkpointer.aput_writes(saved.config, writes, NULL_TASK_ID)


def _beside(saved: CheckpointTuple) -> list[tuple[str, Any]]:
    """What was written to the state since the checkpoint, by no node."""
    return [
        (channel, value)
        for task, channel, value in saved.pending_writes or ()
        if task == NULL_TASK_ID and channel not in WRITES_IDX_MAP
    ]


def _key(tool: str, exact: str | None) -> str:
    return f"{tool}/{exact or '*'}"
