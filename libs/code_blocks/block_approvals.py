"""The approval gate for blocks: one request for each block of a reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from libs.code_blocks.block_protocol import BlockCall
from libs.code_blocks.block_state import CodeState
from libs.middleware.approvals import (
    Approve,
    Decision,
    GateRules,
    Granted,
    Held,
    Reject,
    Request,
    ask,
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


def approved(blocks: Sequence[BlockCall], rules: GateRules, state: CodeState) -> list[BlockCall]:
    """Ask a person about all blocks of a reply, and return the blocks with the decisions.

    Raises GraphInterrupt if there is no answer yet.
    """
    requests = [Request(_NAME, {"language": b["language"], "code": b["code"]}, b["key"]) for b in blocks]
    held = Held(state.get("grants") or {}, state.get("grants_at_reply") or {})
    decisions = ask(requests, rules, held, state=state)
    return [_decided(block, decision) for block, decision in zip(blocks, decisions, strict=True)]


def _decided(block: BlockCall, decision: Decision | Granted) -> BlockCall:
    match decision:
        case Granted(scope=scope):
            return {**block, "granted": scope}
        case Approve():
            return block
        case Reject(message=reason):
            return {**block, "refused": reason or "no reason was given."}
        case edit:
            run = _ExecuteCode.model_validate(edit.edited_action.args)
            changed = (run.language, run.code) != (block["language"], block["code"])
            return {**block, "language": run.language, "code": run.code, "changed": changed}
