"""Run the approved blocks of a reply in order, stop at the first failure, and count repetitions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Sequence

from langchain_core.messages import AnyMessage
from langgraph.config import get_config, get_stream_writer

from libs.code_blocks.block_effects import RunBlock
from libs.code_blocks.block_feedback import OUT_OF_TIME, Outcome
from libs.code_blocks.block_protocol import BlockCall, Live, Refused
from libs.code_blocks.block_runner import SandboxRunner
from libs.code_blocks.block_state import CodeState
from libs.middleware.budget import BudgetStatus, Meter
from libs.sandbox import Execution, RunResult

__all__ = ["repeats", "run_blocks", "run_in_gate", "thread_of"]

_NEW_EACH_TIME = re.compile(r"0x[0-9a-f]+|<block \d+>|/workspace/\.output/\S+")
"""The address of an object, the name of a Python block in a traceback, and the file with the whole output."""


async def run_blocks(
    blocks: Sequence[BlockCall],
    *,
    runner: SandboxRunner,
    live: Live,
    thread: str,
    meter: Meter,
    begun: Collection[str] = (),
    ran: Collection[str] = (),
) -> tuple[list[Outcome], BudgetStatus | None]:
    """Run the blocks of a reply in order and stop at the first failure. Refused blocks are skipped.

    Args:
        begun: keys of blocks that had begun when an earlier process was killed. If there are any, no other
            block runs.
        ran: languages of the blocks that have run earlier in the thread.

    Returns one outcome for each block, and the budget that the blocks used up, or None.
    """
    ran = set(ran)
    outcomes: list[Outcome] = []
    over: BudgetStatus | None = None
    stopped = False
    for each in blocks:
        if "refused" in each:
            outcomes.append(Refused(each["refused"]))
        elif "undone" in each:
            outcomes.append(Refused(each["undone"], undone=True))
        elif "denied" in each:
            outcomes.append(Refused(each["denied"], by_rule=True))
        elif stopped or "skipped" in each or (begun and each["key"] not in begun):
            outcomes.append(None)
        else:
            continues = each["language"] in ran
            done, over = await _execute(each, runner, live, thread, meter, continues=continues)
            ran.add(each["language"])
            outcomes.append(done)
            stopped = done["exit_code"] != 0 or over is not None
    return outcomes, over


async def run_in_gate(state: CodeState, runner: SandboxRunner, live: Live, meter: Meter) -> RunBlock:
    """Return a function that runs a block before all blocks are decided on. Its result is recorded.

    The events of a block are sent once, although LangGraph repeats the node for each answer.
    """
    write = get_stream_writer()
    seen = await runner.begun([block["key"] for block in state["blocks"]])

    async def run(block: BlockCall, continues: bool, alone: bool) -> RunResult:
        language, code, key = block["language"], block["code"], block["key"]
        if key not in seen:
            write({"type": "code", "id": key, "language": language, "code": code})
        with meter.working(), live(key) as show:
            return await runner.run(
                language,
                code,
                thread_id=thread_of(state["messages"]),
                key=key,
                on_output=show,
                continues=continues,
                timeout=min(runner.timeout, max(meter.remaining(), 1.0)),
                alone=alone,
            )

    return run


def thread_of(messages: Sequence[AnyMessage]) -> str:
    """Return the thread of the current run. The first message identifies a run without a thread."""
    return str(get_config()["configurable"].get("thread_id") or messages[0].id)


def repeats(executions: Sequence[Execution]) -> int:
    """Return how many earlier executions have the code and the result of the last one."""
    *earlier, last = map(_ended, executions)
    return earlier.count(last)


async def _execute(
    block: BlockCall, runner: SandboxRunner, live: Live, thread: str, meter: Meter, *, continues: bool
) -> tuple[Execution, BudgetStatus | None]:
    """Run one block. Return its execution and the budget that the block used up, or None."""
    write = get_stream_writer()
    language, code, key = block["language"], block["code"], block["key"]
    granted = {"granted": block["granted"]} if "granted" in block else {}
    if "ran" not in block:  # then the gate has said so
        write({"type": "code", "id": key, "language": language, "code": code, **granted})
    over: BudgetStatus | None = None
    left = meter.remaining()
    with meter.working(), live(key) as show:
        try:
            async with asyncio.timeout(left) as deadline:
                result = await runner.run(
                    language,
                    code,
                    thread_id=thread,
                    key=key,
                    on_output=show,
                    continues=continues,
                    recorded="ran" in block,
                )
            output, exit_code, seconds = result.output, result.exit_code, result.seconds
        except TimeoutError:
            if not deadline.expired():
                raise
            output, exit_code, seconds = OUT_OF_TIME, 124, max(left, 0.0)
            over = "budget_seconds"
    # Only a block without a result took no time: see `without_result`.
    took = max(round(seconds, 3), 0.001) if seconds else 0.0
    done = Execution(language=language, code=code, output=output, exit_code=exit_code, seconds=took)
    write({"type": "execution", "id": key, **done})
    return done, over


def _ended(done: Execution) -> tuple[str, str, str | None]:
    """Return language, code and what it has printed if it failed. These are equal for a repeated execution.

    A different output means progress: a program that is repaired step by step is run many times. The last
    line does not tell, because the programs that run tests or builds end with the same line for all errors.
    An output with the time is different each time, so then only the limit of steps ends the run.
    """
    error = _NEW_EACH_TIME.sub("", done["output"].rstrip()) if done["exit_code"] else None
    return done["language"], done["code"].strip(), error
