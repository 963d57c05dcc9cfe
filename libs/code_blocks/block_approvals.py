"""The approval gate for blocks: one request for each block of a reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from libs.code_blocks.block_protocol import BlockCall
from libs.code_blocks.block_state import CodeState
from libs.middleware.approvals import (
    Approve,
    AtOnce,
    CallRules,
    Decided,
    Denied,
    GateRules,
    Granted,
    Held,
    Reject,
    Request,
    settled,
)

__all__ = ["EDITS", "approved", "asked_about", "with_decision"]

_NAME = "execute_code"


class _ExecuteCode(BaseModel):
    """The form of a block that a person has edited."""

    model_config = ConfigDict(extra="forbid", strict=True)

    language: Literal["python", "bash"]
    code: str


EDITS: Mapping[str, type[BaseModel]] = {_NAME: _ExecuteCode}
"""Form of edited calls, for `answer_by_id`."""


def asked_about(blocks: Sequence[BlockCall], state: CodeState) -> tuple[list[Request], Held, str]:
    """Return a request for each block, the grants, and the digest of the rules at the time of the reply."""
    requests = [Request(_NAME, {"language": b["language"], "code": b["code"]}, b["key"]) for b in blocks]
    held = Held(state.get("grants") or {}, state.get("grants_at_reply") or {})
    return requests, held, state.get("rules_at_reply") or ""


def approved(
    blocks: Sequence[BlockCall], gate: GateRules | None, rules: CallRules, state: CodeState
) -> list[BlockCall]:
    """Decide on all blocks of a reply, and return the blocks with the decisions.

    Args:
        blocks: the blocks.
        gate: the decisions that a person may make. None: approvals are off.
        rules: the rules, which come first.
        state: the state of the graph.

    Raises GraphInterrupt if a person must decide, and there is no answer yet.
    """
    requests, held, at_reply = asked_about(blocks, state)
    decisions = settled(requests, gate, rules, at_reply, held, state=state)
    return [
        with_decision(block, request, Decided(decision))
        for block, request, decision in zip(blocks, requests, decisions, strict=True)
        if not isinstance(decision, AtOnce)
    ]


def with_decision(block: BlockCall, request: Request, decided: Decided) -> BlockCall:
    """Return a block with the decision on it."""
    if (record := decided.record(request)) is not None:
        block = {**block, "decision": record}
    match decided.decision:
        case Granted(scope="effect") | None | Approve():
            return block
        case Granted(scope=scope):
            return {**block, "granted": scope}
        case Denied(reason=reason):
            return {**block, "denied": reason}
        case Reject() if decided.undone is not None:
            return {**block, "undone": decided.undone}
        case Reject(message=reason):
            return {**block, "refused": reason or "no reason was given."}
        case edit:
            run = _ExecuteCode.model_validate(edit.edited_action.args)
            changed = (run.language, run.code) != (block["language"], block["code"])
            return {**block, "language": run.language, "code": run.code, "changed": changed}
