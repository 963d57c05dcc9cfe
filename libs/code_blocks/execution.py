"""Run the approved blocks of a reply in order, up to the first that fails, and see what has run before."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from langgraph.config import get_stream_writer

from libs.code_blocks.feedback import Outcome
from libs.code_blocks.protocol import BlockRunner, Execution, Live, Meter, Refused
from libs.code_blocks.state import Approved

__all__ = ["Ran", "run_blocks"]

_ADDRESS = re.compile(r"0x[0-9a-f]+")
"""The address of an object differs each time the object is made."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of the blocks of a reply."""

    outcomes: list[Outcome]
    """Of each block, in order."""
    executions: list[Execution]
    """Of the whole run so far, these included."""
    repeats: int
    """How many times in this run the code that ended last had run before, and ended alike."""
    over: str | None
    """The budget that was used up meanwhile."""


async def run_blocks(
    approved: Sequence[Approved],
    before: Sequence[Execution],
    *,
    runner: BlockRunner,
    live: Live,
    thread: str,
    meter: Meter,
    begun: Collection[str] = (),
) -> Ran:
    """Run blocks in order, up to the first that fails; those that a person refused are passed over.

    Args:
        approved: the blocks of a reply.
        before: what the run has run so far.
        runner: runs them.
        live: makes what sends a block's output while it runs.
        thread: whose variables and working directory they see.
        meter: counts the run.
        begun: keys of those that had begun before the program was stopped: where there are any, no other is.
    """
    executions = list(before)
    outcomes: list[Outcome] = []
    over: str | None = None
    repeats, going_on = 0, True
    for each in approved:
        if each["refused"] is not None:
            outcomes.append(Refused(each["refused"]))
            continue
        if not going_on or (begun and each["key"] not in begun):
            outcomes.append(None)
            continue
        done, over = await _execute(each, runner, live, thread, meter)
        outcomes.append(done)
        repeats = sum(_ended(done) == _ended(earlier) for earlier in executions)
        executions.append(done)
        going_on = done["exit_code"] == 0 and not over
    return Ran(outcomes, executions, repeats, over)


async def _execute(
    block: Approved, runner: BlockRunner, live: Live, thread: str, meter: Meter
) -> tuple[Execution, str | None]:
    """Run one block; the second value is the budget that it used up, if it did."""
    write = get_stream_writer()
    language, code, key = block["language"], block["code"], block["key"]
    granted = {"granted": block["granted"]} if block.get("granted") else {}
    write({"type": "code", "id": key, "language": language, "code": code, **granted})
    over = None
    left = meter.remaining()
    with meter.working(), live(key) as show:
        try:
            async with asyncio.timeout(left) as deadline:
                result = await runner.run(language, code, thread_id=thread, key=key, on_output=show)
            output, exit_code, seconds = result.output, result.exit_code, result.seconds
        except TimeoutError:
            if not deadline.expired():
                raise
            output, exit_code, seconds = "[cancelled: the run's time is used up]", 124, max(left, 0.0)
            over = "budget_seconds"
    done = Execution(
        language=language, code=code, output=output, exit_code=exit_code, seconds=round(seconds, 3)
    )
    write({"type": "execution", "id": key, **done})
    return done, over


def _ended(done: Execution) -> tuple[str, str, str | None]:
    """What code has in common with the same code that ended alike: without an error, or with the same error.

    With another error something has changed: a program that is mended step by step is run again and again.
    """
    error = _ADDRESS.sub("", done["output"].rstrip().rpartition("\n")[2]) if done["exit_code"] else None
    return done["language"], done["code"].strip(), error
