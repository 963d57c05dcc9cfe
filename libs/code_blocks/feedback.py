"""Everything the loop says: to the model as the next user message, and as the last words of a run."""

# ruff: noqa: E501 - prose

from __future__ import annotations

from collections.abc import Sequence

from libs.code_blocks.protocol import Execution, Refused
from libs.code_blocks.reader import MAX_REPLY, Block, Reading
from libs.code_blocks.shown import fenced, shortened, shown

__all__ = ["CUT_OFF", "MEND", "UNSURE", "Outcome", "closing", "missing", "nudge", "outputs"]

Outcome = Execution | Refused | None
"""What became of a block: how it ended, that a person refused it, or that it was not reached."""

_CODE = (
    "Code runs when it stands in a block of its own that begins with ```python or ```bash and ends with ```."
)

_PART_OF_ANSWER = "If it was part of your answer, give the whole answer again."

CUT_OFF = "Your reply reached its greatest length and was cut off. Say it again, much shorter."
"""To an answer whose end is missing."""

UNSURE = (
    "Nothing has been run yet. If any of your answer depends on files, on this computer, on the date or on a "
    f"calculation, write the code that finds it out. {_CODE} If none of it does, give the whole answer again."
)
"""To an answer of which only the model can tell whether it was guessed. It is said once."""

MEND = (
    "The last code failed and nothing has run since, so the task is not done. Mend the cause and send the whole corrected "
    f"block. {_CODE}"
)
"""To words where code has failed."""

_MOST_CHANGED = 4_000
"""Characters that are shown of a block that a person has changed."""

_CUT_OFF = (
    "The program was stopped while this code ran. Nothing was run a second time: what had ended is shown as it was "
    "recorded. Variables and the working directory may be lost. Look at what is there, then send the code for the rest."
)

_PROBLEMS = {
    "too_long": f"Your reply was longer than {MAX_REPLY:,} characters, so it was not read and nothing of it was run. "
    "Reply again in a few steps: one short block at a time.",
    "unclosed": "A code block of your reply has no closing ```, so it was not run. Send the whole block again, shorter "
    "if it was cut off, and close it.",
    "nested": "A code block of your reply holds the beginning of another block, so it is not clear where it ends, and "
    "it was not run. Send it again: close each block before the next, and put code that holds ``` itself between ```` "
    "and ````.",
}


def nudge(reading: Reading, reply: str, *, cut_off: bool, ran: bool, failed: bool, asked: bool) -> str | None:
    """What to say to a reply without code that can run; None where it is the answer.

    Args:
        reading: what was found in `reply`; it has no blocks.
        cut_off: whether the model says that it had to end.
        ran: whether anything has run in this run.
        failed: whether the block that ran last failed.
        asked: whether the reply before had no code either.
    """
    if reading.problem:
        return _PROBLEMS[reading.problem]
    if cut_off:
        return CUT_OFF
    if not reply.strip():
        return f"Your reply was empty. Go on with the task, or say what the answer is. {_CODE}"
    if reading.empty:
        return f"Nothing was run: the block was empty. {_CODE}"
    # Nothing has run, or the last code failed: such a block is meant to run, however often it is sent.
    if reading.untagged and (failed or not ran):
        return f"Nothing was run: the block does not say its language. {_CODE}"
    # Said once: after code has run, the same may be part of the answer.
    once = failed or not ran or not asked
    if reading.imitated_call and once:
        return (
            f"Nothing was run: calls in JSON or XML mean nothing here. Write code that does the same. {_CODE}"
        )
    if reading.others and once:
        return f"Nothing was run: {_languages(reading)} Write it in Python or bash. {_CODE} {_PART_OF_ANSWER}"
    if reading.untagged and once:
        return f"Nothing was run: the block does not say its language. {_CODE} {_PART_OF_ANSWER}"
    if failed:
        return MEND
    return None if ran or asked else UNSURE


def missing(files: Sequence[str], made: Sequence[str] = ()) -> str:
    """What to say to an answer that speaks of files which are not there; `made` are there."""
    there = f" These are there: {', '.join(made)}." if made else ""
    return (
        f"There is no {', '.join(files)}.{there} If the task asks for it, write the code that makes it; else give your "
        "answer again, without it."
    )


def outputs(
    blocks: Sequence[Block],
    outcomes: Sequence[Outcome],
    reading: Reading,
    *,
    repeats: int,
    limit: int,
    cut_off: bool = False,
) -> str:
    """What a reply's blocks printed, each labelled, as the next user message.

    Args:
        blocks: all of them in order, as a person let them run.
        outcomes: of all blocks, in order.
        reading: the reply; what it holds besides is mentioned at the end.
        repeats: how many times in this run the code that ended last had run before, just as it is.
        limit: characters of output that are shown, shared evenly by the blocks.
        cut_off: whether the program was stopped while they ran, and this is what is known of them.
    """
    ran = [outcome for outcome in outcomes if outcome and not isinstance(outcome, Refused)]
    share = limit // max(1, len(ran))
    said: list[str] = []
    failed = 0
    for number, (block, outcome) in enumerate(zip(blocks, outcomes, strict=True), 1):
        name = f"Block {number} ({block.language})" if len(outcomes) > 1 else f"The {block.language} block"
        changed = len(reading.blocks) == len(blocks) and reading.blocks[number - 1] != block
        if changed and outcome and not isinstance(outcome, Refused):
            code = fenced(shortened(block.code, _MOST_CHANGED), block.language)
            said.append(f"{name} was changed by a person before it ran. What ran is this:\n{code}")
        if outcome is None:
            said.append(f"{name} was not run{f', because block {failed} failed' if failed else ''}.")
        elif isinstance(outcome, Refused):
            said.append(f"{name} was not run. A person refused it: {outcome.reason}")
        elif outcome["exit_code"] == 0:
            said.append(f"{name} succeeded{shown(outcome['output'], share)}")
        else:
            failed = number
            said.append(
                f"{name} failed with exit code {outcome['exit_code']}{shown(outcome['output'], share)}"
            )
    if cut_off:
        said.append(_CUT_OFF)
    elif failed:
        said.append("Read the error, mend its cause and send the whole corrected block.")
    if repeats:
        said.append(_repeated(repeats, failed=bool(failed)))
    if reading.problem:
        said.append(_PROBLEMS[reading.problem])
    if reading.others:
        said.append(_languages(reading))
    return "\n\n".join(said)


def closing(status: str, *, steps: int, nudges: int, last: Execution | None) -> str:
    """The last words of a run that does not end with the model's answer."""
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
        said += " The last code failed." if last and last["exit_code"] else ""
    else:
        said = "I stopped here: the same code failed three times in the same way. The task is not done."
    return said + (f"\n\nThe last code printed{shown(last['output'], 1_000)}" if last else "")


def _repeated(times: int, *, failed: bool) -> str:
    if failed:
        return "You sent exactly this code before, and it failed before. Sending it again cannot help: change it."
    return (
        f"You sent exactly this code {'before' if times == 1 else f'{times} times before'}. If its output answers the "
        "task, reply with the answer and no code."
    )


def _languages(reading: Reading) -> str:
    return f"{', '.join(reading.others)} cannot run here, only Python and bash can."
