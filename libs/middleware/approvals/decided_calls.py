"""Turn the decisions on the calls of a reply into the update of the state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from langchain.agents.middleware.human_in_the_loop import Action
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from libs.middleware.approvals.approvals_off import denied_answer, marked
from libs.middleware.approvals.decision_log import decision_record
from libs.middleware.approvals.decisions import Edit, Reject
from libs.middleware.approvals.edited_calls import with_edits
from libs.middleware.approvals.gate_rules import GateRules
from libs.middleware.approvals.grants import Granted, Held
from libs.middleware.approvals.question import Request, digest
from libs.middleware.approvals.rules import Denied
from libs.middleware.approvals.settle_calls import Settled
from libs.middleware.open_calls import not_run
from libs.private_names import EDITED_TOOL_CALLS
from libs.sandbox import RunResult

__all__ = ["Decided", "Effects", "RanAtOnce", "updated"]


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision on a call."""

    decision: Settled
    ran: bool = False
    """Whether the call has run already."""
    result: RunResult | None = None
    """Of a call that has run already."""
    undone: str | None = None
    """Text for the model about a call whose effect was rejected and undone."""

    def record(self, request: Request) -> dict[str, Any] | None:
        """Return the `decision_record`, if anybody or anything has decided.

        `effect` is `kept` or `undone` if the call has run already.
        """
        if self.decision is None:
            return None
        record = decision_record(request, self.decision)
        return {**record, "effect": "kept" if self.undone is None else "undone"} if self.ran else record


class RanAtOnce(Protocol):
    """Knows the calls that have run before anybody was asked."""

    async def begun(self, keys: Collection[str]) -> set[str]:
        """Return the keys of calls that have begun to run at once."""
        ...

    async def lapse(self) -> None:
        """Undo calls that nobody has decided on, because a person's turn begins."""
        ...


class Effects(RanAtOnce, Protocol):
    """Runs tool calls at once, and decides on what they have done. See `effects.EffectCalls`."""

    def covers(self, request: Request) -> bool:
        """Return whether a call can run at once."""
        ...

    async def decided(
        self, request: Request, key: str, seconds: float, *, gate: GateRules, held: Held | None, state: Any
    ) -> Decided:
        """Run a call for at most some seconds, and decide on its effect."""
        ...


def updated(
    state: Mapping[str, Any], requests: Sequence[Request], decided: Sequence[Decided]
) -> dict[str, Any] | None:
    """Return the update of the `ApprovalState`, with answers to calls that do not run. None: no change."""
    update: dict[str, Any] = {
        "approved_calls": {},
        EDITED_TOOL_CALLS: {},
        "granted_calls": {},
        "decided_calls": {},
    }
    if not requests:
        return update if any(state.get(key) for key in update) else None
    refusals: list[ToolMessage] = []
    edits: dict[str, dict[str, Any]] = {}
    for request, made in zip(requests, decided, strict=True):
        run = request.digest
        if (record := made.record(request)) is not None:
            update["decided_calls"][request.call_id] = record
        match made.decision:
            case Denied() as denied:
                refusals.append(denied_answer(request.name, request.call_id, denied))
                continue
            case Granted(scope=scope) if scope != "effect":  # the record of the decision says so
                update["granted_calls"][request.call_id] = scope
            case Reject(message=reason):
                refused = not_run(request.name, request.call_id, made.undone or _rejected(request, reason))
                refused.artifact = {"rejected": True}  # for whoever shows the call: no text is parsed
                refusals.append(refused)
                continue
            case Edit(edited_action=edited):
                action = Action(name=edited.name, args=edited.args)
                update[EDITED_TOOL_CALLS][request.call_id] = action
                edits[request.call_id] = edited.args
                run = digest(edited.name, edited.args, request.call_id)
        update["approved_calls"][request.call_id] = run
    for refused in refusals:
        marked(refused, update["decided_calls"])
    messages: list[AnyMessage] = [*refusals]
    if edits:  # the marked reply replaces the reply with the same id
        replies = cast("Sequence[AnyMessage]", state["messages"])
        reply = next(each for each in reversed(replies) if isinstance(each, AIMessage))
        messages.append(with_edits(reply, edits))
    return {**update, "messages": messages}


def _rejected(request: Request, reason: str | None) -> str:
    advice = f"Reason: {reason}" if reason else "Do not send the same call again unless the user asks for it."
    return f"A person rejected this {request.name} call, so it was not run. {advice}"
