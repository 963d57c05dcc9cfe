"""Run calls at once, and decide on what they have done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from libs.middleware.approvals.approval_gate import ask_alone
from libs.middleware.approvals.decided_calls import Decided
from libs.middleware.approvals.decisions import Reject
from libs.middleware.approvals.effects.effect_card import effect_card
from libs.middleware.approvals.gate_rules import GateRules
from libs.middleware.approvals.grants import Granted, Held
from libs.middleware.approvals.question import Request
from libs.middleware.approvals.visible_text import on_one_line, visible
from libs.middleware.captures import captured_thread
from libs.sandbox import RunResult
from libs.workspace.history import AskFirst, EffectRuns, Undone

__all__ = ["EffectCalls"]

_MOST_NAMED: Final = 10
"""Paths of one kind in the text for the model."""


@dataclass(frozen=True, slots=True)
class EffectCalls:
    """Decides on calls by their effects. Keeps no state of a run."""

    runs: Callable[[], Awaitable[EffectRuns]]
    """Returns the object that runs calls between two captures."""
    redact: Callable[[str], str] = lambda text: text
    """Removes known secrets from what a person sees."""
    programs: bool = False
    """Whether an undo ends the thread's interpreters."""

    async def begun(self, keys: Collection[str]) -> set[str]:
        """Return the keys of calls that have begun to run at once."""
        thread = captured_thread()
        return set() if thread is None else await (await self.runs()).begun(thread, keys)

    async def lapse(self) -> None:
        """Undo calls that nobody has decided on, because a person's turn begins."""
        if (thread := captured_thread()) is not None:
            await (await self.runs()).lapse(thread)

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
        """Run a call, and decide on its effect. A call that has run, or was undone, is only looked up.

        Args:
            key: the key with which the caller looks for the result of the call.
            run: runs the call with the key, alone (see `Sandbox.run`). Does not raise.

        Raises:
            GraphInterrupt: a person must decide, and there is no answer yet.
        """
        runs, thread = await self.runs(), captured_thread()
        if thread is None:
            found: Any = AskFirst("the run is not saved in a thread")
        else:
            found = await runs.run(thread, key, run)
            if not isinstance(found, AskFirst) and found.refused:
                found = await runs.undo_for_network(thread, key, found)
        if isinstance(found, AskFirst):
            note = on_one_line(self.redact(f"You are asked before this runs: {found.why}."))
            return Decided(ask_alone(replace(request, note=note), gate, held, state=state))
        if found.free:
            return Decided(Granted("effect"), ran=True, result=found.result)
        value, text = await effect_card(runs, found, key, self.redact)
        decision = ask_alone(replace(request, effect=value, effect_text=text), gate, held, state=state)
        if not isinstance(decision, Reject):
            await runs.keep(str(thread), key)
            return Decided(decision, ran=True, result=found.result)
        undone = await runs.undo(str(thread), key, found, programs=self.programs, rejected=True)
        told = _told(request.name, undone, decision.message, programs=self.programs)
        told = visible(self.redact(told))
        return Decided(decision, ran=True, undone=told)


def _told(name: str, undone: Undone, reason: str | None, *, programs: bool) -> str:
    how = "so that was undone"
    if undone.kept:
        how = "so that was undone in part" if undone.difference else "but nothing of that could be undone"
    said = [f"This {name} call ran, and a person rejected what it did, {how}."]
    created, changed, deleted = undone.difference.parts
    for what, paths in (
        ("Deleted again", created),
        ("Changed back", changed),
        ("Brought back", deleted),
    ):
        if paths:
            said.append(f"{what}: {_named(paths)}.")
    if undone.kept:
        kept = [f"{path} ({why})" for path, why in islice(undone.kept.items(), _MOST_NAMED)]
        more = len(undone.kept) - len(kept)
        named = on_one_line("; ".join(kept))
        said.append(f"Not undone: {named}{f'; and {more:,} more' if more else ''}.")
    if not undone.difference and not undone.kept:
        said.append("It had changed no file.")
    if programs:
        said.append("The variables of earlier Python blocks are lost, too.")
    said.append(
        f"Reason: {reason}" if reason else "Do not send the same call again unless the user asks for it."
    )
    return " ".join(said)


def _named(paths: Sequence[str]) -> str:
    more = len(paths) - _MOST_NAMED
    return on_one_line(", ".join(paths[:_MOST_NAMED])) + (f" and {more:,} more" if more > 0 else "")
