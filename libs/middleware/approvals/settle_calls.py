"""Decide on the calls of a reply: rules come first, then grants, then a person."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from libs.middleware.approvals.approval_gate import ask
from libs.middleware.approvals.decisions import Decision, Edit
from libs.middleware.approvals.gate_rules import GateRules
from libs.middleware.approvals.grants import Granted, Held
from libs.middleware.approvals.question import Request
from libs.middleware.approvals.rules import CallRules, Denied, Verdict

__all__ = ["AtOnce", "Settled", "settled"]


@dataclass(frozen=True, slots=True)
class AtOnce:
    """A call that nothing covers. It runs at once, and then its effect is decided on."""


Settled = Decision | Granted | Denied | None
"""The decision on a call. None: nobody has to decide, so the call runs."""


def settled(
    requests: Sequence[Request],
    gate: GateRules | None,
    rules: CallRules,
    at_reply: str | None,
    held: Held | None = None,
    *,
    state: Any = None,
    at_once: Collection[str] = (),
    begun: Collection[str] = (),
) -> list[Settled | AtOnce]:
    """Return the decision on each call, in order. Call this function at most once in a node (see `ask`).

    Args:
        requests: the calls.
        gate: which calls a person decides on. None: approvals are off, so only a `deny` counts.
        rules: the rules.
        at_reply: digest of the rules at the time of the reply.
        held: the grants of the thread.
        state: the state of the graph.
        at_once: digests of calls that run at once where a person would have to decide.
        begun: digests of calls that have run at once already, whatever the rules say now.

    Raises:
        CheckpointerRequired: a person must decide, and the run has no checkpointer.
        GraphInterrupt: a question has no answer yet.
    """
    made: dict[str, Settled | AtOnce] = {}
    waiting: list[Request] = []
    ruled: set[str] = set()
    for request in requests:
        if request.digest in begun:
            made[request.digest] = AtOnce()
            continue
        verdict = rules.verdict(request.name, request.args, at_reply)
        if isinstance(verdict, Denied):
            made[request.digest] = verdict
        elif gate is None or (verdict == Verdict("ask") and request.name not in gate.configs):
            made[request.digest] = None
        elif verdict.decision == "allow":
            made[request.digest] = Granted("rule", verdict.by)
        elif (
            request.digest in at_once
            and not (verdict.rules or verdict.uses)
            and gate.asks_about(request, state)
        ):
            made[request.digest] = (held.covering(request) if held else None) or AtOnce()
        else:
            waiting.append(request)
            if verdict.rules or verdict.uses:
                ruled.add(request.digest)
    if gate is not None and waiting:
        decisions = ask(waiting, gate, held, state=state, ruled=ruled)
        for request, decision in zip(waiting, decisions, strict=True):
            made[request.digest] = _after_edit(request, decision, rules)
    return [made[request.digest] for request in requests]


def _after_edit(request: Request, decision: Decision | Granted | None, rules: CallRules) -> Settled:
    """Return the decision, or a denial of the call that a person has written."""
    if not isinstance(decision, Edit):
        return decision
    return rules.denial(request.name, decision.edited_action.args) or decision
