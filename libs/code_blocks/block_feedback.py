"""The texts of the loop: its messages to the model, and the last message of a run."""

# ruff: noqa: E501 - prose

from __future__ import annotations

import re
from collections.abc import Sequence

from libs.code_blocks.block_protocol import BlockCall, Refused
from libs.code_blocks.block_reader import MAX_REPLY, Reading
from libs.sandbox import Execution
from libs.sandbox.host import shortened

__all__ = [
    "OUT_OF_TIME",
    "PROBLEMS",
    "STOPPED",
    "Outcome",
    "closing",
    "keys_without_result",
    "languages",
    "outputs",
    "remarks",
    "shown_outputs",
    "without_result",
]

Outcome = Execution | Refused | None
"""The result of a block: its execution, a refusal by a person, or None if the block did not run."""

_MOST_CHANGED = 4_000
"""Characters shown of a block that a person has edited."""

_CUT_OFF = (
    "The program was stopped while this code ran. Nothing was run a second time: what had ended is shown as it was "
    "recorded. Variables and the working directory may be lost. Look at what is there, then send the code for the rest."
)

OUT_OF_TIME = "[cancelled: the run's time is used up. What the code has printed is not known]"
"""Output of a block that the end of the run's time has cancelled."""

STOPPED = (
    "How the code of your last reply ended is unknown: it was not run, was stopped while it ran, was undone, or ended "
    "without a saved result. Look before you repeat anything. The output of the next block says whether variables are lost."
)
"""Message to the model if no other message says how the code of its reply has ended."""

_UNTAGGED = (
    "A block without a language was not run. If the block only shows something, leave it out. If it must run, send only "
    "that block, with its language."
)

PROBLEMS = {
    "too_long": f"Your reply was longer than {MAX_REPLY:,} characters, so it was not read and nothing of it was run. "
    "Reply again in a few steps: one short block at a time.",
    "unclosed": "A code block of your reply has no closing ```, so it was not run. Send the whole block again, shorter "
    "if it was cut off, and close it.",
    "nested": "A code block of your reply holds the beginning of another block, so it is not clear where it ends, and "
    "it was not run. Send it again: close each block before the next, and put code that holds ``` itself between ```` "
    "and ````.",
    "not_text": "A code block of your reply holds NUL or half of a surrogate pair, which is not text, so it was not run. "
    "Send it again, with an escape sequence for this character.",
}


def shown_outputs(outcomes: Sequence[Outcome], *, limit: int) -> list[str]:
    """Return the output of each block as the model gets it, empty for a block that did not run.

    The blocks that ran share `limit` characters evenly. A longer output is cut in its middle.
    """
    ran = [outcome for outcome in outcomes if isinstance(outcome, dict)]
    share = limit // max(1, len(ran))
    return [
        shortened(outcome["output"].rstrip("\n"), share) if isinstance(outcome, dict) else ""
        for outcome in outcomes
    ]


def outputs(
    blocks: Sequence[BlockCall],
    outcomes: Sequence[Outcome],
    shown: Sequence[str],
    remarks: str = "",
    *,
    repeats: int,
    cut_off: bool = False,
) -> str:
    """Return the labelled outputs of a reply's blocks as the next user message.

    `shown` holds the `shown_outputs`. `repeats` says how often the last code had run before with the same
    result, and `cut_off` whether the process was killed while the blocks ran.
    """
    said: list[str] = []
    failed = 0
    blameless = theirs = False
    for number, (block, outcome, output) in enumerate(zip(blocks, outcomes, shown, strict=True), 1):
        language = block["language"]
        name = f"Block {number} ({language})" if len(outcomes) > 1 else f"The {language} block"
        if block.get("changed") and outcome and not isinstance(outcome, Refused):
            code = _fenced(shortened(block["code"], _MOST_CHANGED), language)
            said.append(f"{name} was changed by a person before it ran. What ran is this:\n{code}")
        if isinstance(outcome, dict):
            theirs = bool(block.get("changed"))
        if outcome is None:
            said.append(f"{name} was not run{f', because block {failed} failed' if failed else ''}.")
        elif isinstance(outcome, Refused) and outcome.undone:
            said.append(f"{name}: {outcome.reason}")
        elif isinstance(outcome, Refused) and outcome.by_rule:
            said.append(f"{name} was not run. {outcome.reason}")
        elif isinstance(outcome, Refused):
            said.append(f"{name} was not run. A person refused it: {outcome.reason}")
        elif outcome["exit_code"] == 0:
            said.append(f"{name} succeeded{_fenced_output(output)}")
        else:
            failed = number
            unrun = without_result(outcome)
            how = "has no result" if unrun else f"failed with exit code {outcome['exit_code']}"
            blameless = unrun or outcome["output"] == OUT_OF_TIME
            said.append(f"{name} {how}{_fenced_output(output)}")
    if cut_off:
        said.append(_CUT_OFF)
    elif failed and not blameless:
        said.append("Read the error, mend its cause and send the whole corrected block.")
    if repeats and not blameless and not theirs:
        said.append(_repeated(repeats, failed=bool(failed)))
    if remarks:
        said.append(remarks)
    return "\n\n".join(said)


def remarks(reading: Reading) -> str:
    """Return why parts of a reply did not run, for the message with the outputs."""
    problem = PROBLEMS[reading.problem] if reading.problem else ""
    others = languages(reading) if reading.others else ""
    return "\n\n".join(filter(None, (problem, others, _UNTAGGED if reading.untagged else "")))


def closing(status: str, *, steps: int, nudges: int, last: Execution | None) -> str:
    """Return the last message of a run that ends without an answer."""
    if status == "max_steps":
        said = (
            f"I stopped here: {steps} steps are used up and the task is not finished. What was done is kept. "
        )
        said += "Send another message to go on."
    elif status == "no_execution" and last is None:
        said = f"I stopped here: no code was run, though I was asked for it {nudges} times. Whatever I said about "
        said += "results is not checked."
    elif status == "no_execution":
        said = f"I stopped here: I was asked {nudges} times to go on and sent no code that can run."
        said += " The last code failed." if last and last["exit_code"] and not without_result(last) else ""
    elif last is not None and without_result(last):
        said = "I stopped here: the same code had no result three times, for the same reason. The task may not be done."
    else:
        said = "I stopped here: the same code failed three times in the same way. The task is not done."
    printed = last is not None and last["output"].strip()
    what = "has no result" if last is not None and without_result(last) else "printed"
    return said + (f"\n\nThe last code {what}{_fenced_output(shortened(printed, 1_000))}" if printed else "")


def keys_without_result(blocks: Sequence[BlockCall], outcomes: Sequence[Outcome]) -> list[str]:
    """Return the keys of the blocks that did not run, or have an unknown end."""
    return [
        block["key"]
        for block, done in zip(blocks, outcomes, strict=True)
        if isinstance(done, dict) and without_result(done)
    ]


def without_result(done: Execution) -> bool:
    """Return whether a block did not run, or has an unknown end. Its output says why.

    Such a block has exit code 125 and took 0 seconds: see `failed_result`. Code that exits with 125 takes time.
    """
    return done["exit_code"] == 125 and not done["seconds"]


def _repeated(times: int, *, failed: bool) -> str:
    if failed:
        return "You sent exactly this code before, and it failed before. Sending it again cannot help: change it."
    return (
        f"You sent exactly this code {'before' if times == 1 else f'{times} times before'}. If its output answers the "
        "task, reply with the answer and no code."
    )


def languages(reading: Reading) -> str:
    return f"{', '.join(reading.others)} cannot run here, only Python and bash can."


def _fenced_output(output: str) -> str:
    """Return the output as the end of a sentence, in a fence that the output cannot close."""
    return f":\n{_fenced(output, 'output')}" if output else " and printed nothing."


def _fenced(text: str, tag: str) -> str:
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{tag}\n{text}\n{fence}"
