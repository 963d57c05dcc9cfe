"""Run the blocks of a reply in the gate, and decide on each by what it has done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from libs.code_blocks.block_approvals import asked_about, with_decision
from libs.code_blocks.block_protocol import BlockCall
from libs.code_blocks.block_state import CodeState
from libs.code_blocks.block_turn import languages_run
from libs.middleware.approvals import (
    AtOnce,
    CallRules,
    Decided,
    GateRules,
    Held,
    RanAtOnce,
    Request,
    settled,
)
from libs.sandbox import RunResult

__all__ = ["BlockEffects", "RunBlock", "approved_by_effect"]

RunBlock = Callable[[BlockCall, bool, bool], Awaitable[RunResult]]
"""Runs a block. Takes whether a block of its language has run before, and whether it runs `alone`."""


class BlockEffects(RanAtOnce, Protocol):
    """Decides on blocks by what they have done. See `libs.middleware.approvals.effects.EffectCalls`."""

    at_once: bool
    """Whether blocks run at once. If not, only those are decided on here that have run so already."""

    async def decided(
        self,
        request: Request,
        key: str,
        run: Callable[[], Awaitable[RunResult]],
        *,
        gate: GateRules,
        held: Held | None,
        state: Any,
    ) -> Decided:
        """Run a block, and decide on its effect."""
        ...


async def approved_by_effect(
    blocks: Sequence[BlockCall],
    gate: GateRules,
    rules: CallRules,
    state: CodeState,
    *,
    effects: BlockEffects,
    run: RunBlock,
) -> list[BlockCall]:
    """Decide on the blocks of a reply, and return the blocks with the decisions.

    If a block runs at once, all blocks run here, in their order, because they share variables and files. The
    first one that fails or is undone is the last one. Each result is recorded under the key of its block.

    Raises GraphInterrupt if a person must decide, and there is no answer yet.
    """
    requests, held, at_reply = asked_about(blocks, state)
    begun = await effects.begun([block["key"] for block in blocks])
    decisions = settled(
        requests,
        gate,
        rules,
        at_reply,
        held,
        state=state,
        at_once=[each.digest for each in requests] if effects.at_once else (),
        begun=[each.digest for each in requests if each.call_id in begun],
    )
    runs_here = any(isinstance(each, AtOnce) for each in decisions)
    ran = languages_run(state["messages"])
    made: list[BlockCall] = []
    stopped = False
    for block, request, decision in zip(blocks, requests, decisions, strict=True):
        if stopped:
            made.append({**block, "skipped": True})
            continue
        continues = block["language"] in ran
        if isinstance(decision, AtOnce):
            decided = await effects.decided(
                request,
                request.call_id,
                lambda block=block, continues=continues: run(block, continues, True),  # type: ignore[misc]
                gate=gate,
                held=held,
                state=state,
            )
        else:
            decided = Decided(decision)
        done = with_decision(block, request, decided)
        if "undone" in done:
            stopped = True
        elif runs_here and "refused" not in done and "denied" not in done:
            # What earlier blocks have left in the interpreter must not go on outside of all captures.
            stops = done["language"] == "python"
            result = decided.result or await run(done, continues, stops)
            done = {**done, "ran": True}
            ran.add(done["language"])
            stopped = result.exit_code != 0
        made.append(done)
    return made
