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
    Denied,
    GateRules,
    Granted,
    Held,
    Reject,
    Request,
    Settled,
    decision_record,
    settled,
)

__all__ = ["EDITS", "approved"]

_NAME = "execute_code"


class _ExecuteCode(BaseModel):
    """The form of a block that a person has edited."""

    model_config = ConfigDict(extra="forbid", strict=True)

    language: Literal["python", "bash"]
    code: str


EDITS: Mapping[str, type[BaseModel]] = {_NAME: _ExecuteCode}
"""Form of edited calls, for `answer_by_id`."""


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
    requests = [Request(_NAME, {"language": b["language"], "code": b["code"]}, b["key"]) for b in blocks]
    held = Held(state.get("grants") or {}, state.get("grants_at_reply") or {})
    at_reply = state.get("rules_at_reply") or ""
    found = settled(requests, gate, rules, at_reply, held, state=state)
    decisions = [each for each in found if not isinstance(each, AtOnce)]
    made = []
    for block, request, decision in zip(blocks, requests, decisions, strict=True):
        if decision is not None:
            block = {**block, "decision": decision_record(request, decision)}  # noqa: PLW2901
        made.append(_decided(block, decision))
    return made


def _decided(block: BlockCall, decision: Settled) -> BlockCall:
    match decision:
        case Granted(scope=scope):
            return {**block, "granted": scope}
        case Denied(reason=reason):
            return {**block, "denied": reason}
        case None | Approve():
            return block
        case Reject(message=reason):
            return {**block, "refused": reason or "no reason was given."}
        case edit:
            run = _ExecuteCode.model_validate(edit.edited_action.args)
            changed = (run.language, run.code) != (block["language"], block["code"])
            return {**block, "language": run.language, "code": run.code, "changed": changed}
