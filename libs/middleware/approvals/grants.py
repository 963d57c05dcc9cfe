"""Grants: approvals for the rest of a thread, for "this exact command" or "this tool".

Grants are saved in a channel of the outermost graph, so in the thread's checkpoint on the host. They are
deleted with the thread. No input schema has the channel. Only `addressed_graph` writes the channel, together
with a person's answer, so no model, file or page can add a grant. A grant given to a subagent belongs to the
whole thread.

A call needs no question if a grant covered it when the model made the call, and still does. A grant therefore
never answers a question that already waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple
from typing_extensions import TypedDict

from libs.middleware.approvals.decisions import Approve, Decision
from libs.middleware.approvals.question import Request, command_digest
from libs.private_names import NULL_TASK_ID

__all__ = [
    "GRANTS",
    "Grant",
    "Granted",
    "Grants",
    "Held",
    "granted_by",
    "revoke",
    "revoked_in",
    "shown",
    "standing",
    "standing_in",
]

GRANTS = "grants"
"""The channel: key of a grant -> the grant, or None if revoked. Its reducer is `operator.or_`."""


class Grant(TypedDict):
    """An approval for the rest of a thread."""

    tool: str
    """The name of the tool. `execute_code` is one tool for both languages: Python can run bash anyway."""
    digest: str | None
    """`command_digest` of the covered call. None: every call of the tool."""
    shown: str
    """The whole call as the person saw it."""
    question: str
    """Id of the answered interrupt. Distinguishes a grant from one that was revoked and given again."""


Grants = Mapping[str, Grant | None]


@dataclass(frozen=True)
class Granted:
    """A call that runs without a question, with the scope of its grant."""

    scope: Literal["command", "tool", "rule", "effect"]
    """`rule`: no grant, but a rule of the rules file allows the call. `effect`: the call has run, and nobody
    has to be asked about what it did."""
    rule: str = ""
    """The rules that allow the call."""


@dataclass(frozen=True)
class Held:
    """The grants that apply to the calls of one reply."""

    now: Grants
    """The grants of the thread."""
    at_reply: Grants
    """The grants of the thread at the time of the reply."""

    def covering(self, request: Request) -> Granted | None:
        """Return the grant that covers a call, or None."""
        exact = _key(request.name, command_digest(request.name, request.args))
        if self._both(exact):
            return Granted("command")
        return Granted("tool") if self._both(_key(request.name, None)) else None

    def _both(self, key: str) -> bool:
        grant = self.now.get(key)
        return grant is not None and grant == self.at_reply.get(key)


def granted_by(
    decisions: Sequence[Decision], question: Mapping[str, Any], question_id: str
) -> dict[str, Grant]:
    """Return the grants of an answer: key -> grant.

    Args:
        decisions: the decisions of the answer, one for each request.
        question: the value of the answered interrupt.
        question_id: the id of that interrupt.
    """
    grants: dict[str, Grant] = {}
    for request, decision in zip(question["action_requests"], decisions, strict=True):
        if isinstance(decision, Approve) and decision.scope != "call":
            name = request["name"]
            exact = command_digest(name, request["args"]) if decision.scope == "command" else None
            grants[_key(name, exact)] = Grant(
                tool=name, digest=exact, shown=request["description"], question=question_id
            )
    return grants


def standing(grants: Grants | None) -> dict[str, Grant]:
    """Return the grants that are not revoked, in the order in which they were given."""
    return {key: grant for key, grant in (grants or {}).items() if grant}


def shown(grants: Grants | None) -> list[dict[str, Any]]:
    """Return the grants as people and programs see them."""
    keys = ("tool", "digest", "shown")
    return [{key: grant[key] for key in keys} for grant in standing(grants).values()]  # type: ignore[literal-required]


def standing_in(saved: CheckpointTuple) -> dict[str, Grant]:
    """Return the grants of a thread that are not revoked, from its latest checkpoint."""
    return standing(_grants_in(saved))


def revoked_in(saved: CheckpointTuple) -> set[str]:
    """Return the keys of the revoked grants of a thread, from its latest checkpoint."""
    return {key for key, grant in _grants_in(saved).items() if grant is None}


def _grants_in(saved: CheckpointTuple) -> dict[str, Grant | None]:
    grants: dict[str, Grant | None] = dict(saved.checkpoint["channel_values"].get(GRANTS) or {})
    for channel, value in _beside(saved):
        if channel == GRANTS:
            grants |= value
    return grants


async def revoke(checkpointer: BaseCheckpointSaver[Any], saved: CheckpointTuple, keys: Sequence[str]) -> None:
    """Revoke grants. Waiting questions stay; calls that are no longer covered are asked about.

    No run of the thread may be active.
    """
    # Written beside the latest checkpoint, as LangGraph does for `Command(update=...)`. A state update would
    # make a new checkpoint, on which waiting subagents would start again. The writes are numbered, so the
    # existing writes come first.
    writes = [*_beside(saved), (GRANTS, dict.fromkeys(keys))]
    await checkpointer.aput_writes(saved.config, writes, NULL_TASK_ID)


def _beside(saved: CheckpointTuple) -> list[tuple[str, Any]]:
    """Return the state updates since the checkpoint that come from no node."""
    return [
        (channel, value)
        for task, channel, value in saved.pending_writes or ()
        if task == NULL_TASK_ID and channel not in WRITES_IDX_MAP
    ]


def _key(tool: str, exact: str | None) -> str:
    return f"{tool}/{exact or '*'}"
