"""Everything the loop says: to the model as the next user message, and as the last words of a run."""

# ruff: noqa: E501 - prose

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from libs.code_blocks.advice import advice
from libs.code_blocks.afresh import error_of
from libs.code_blocks.columns import in_lists
from libs.code_blocks.emptiness import labelled, results_of, shows_nothing
from libs.code_blocks.need import Need
from libs.code_blocks.protocol import Execution, Refused
from libs.code_blocks.reader import MAX_REPLY, Block, Reading
from libs.code_blocks.shown import fenced, shortened, shown
from libs.code_blocks.untagged import reads_like_code

__all__ = [
    "CUT_OFF",
    "DO",
    "MEND",
    "NOT_RIGHT",
    "RUNS_ON",
    "UNSURE",
    "WITHHELD",
    "Outcome",
    "another_way",
    "checks_failed",
    "closing",
    "missing",
    "nudge",
    "outputs",
]

Outcome = Execution | Refused | None
"""What became of a block: how it ended, that a person refused it, or that it was not reached."""

_CODE = (
    "Code runs when it stands in a block of its own that begins with ```python or ```bash and ends with ```."
)

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

DO = f"Nothing has been run yet, so nothing is known yet. Write the code that does the task. {_CODE}"
"""To words where code is needed."""

NOT_RIGHT = (
    "A check has printed WRONG, so the program is not right yet, or the check is not. Go through it by hand for that "
    "example, find the mistake, and send the whole corrected block."
)
"""To a program whose own checks say that it is wrong."""

RUNS_ON = (
    "Your reply went on and on, and was stopped there; nothing of it was run. Write it again, short: no more than "
    "three examples in code."
)
"""To a reply that `libs.code_blocks.repetition` has ended."""

WITHHELD = (
    "Nothing was run: your code held the value of a secret of this installation, which [REDACTED] stands for here. No "
    "secret goes through a conversation. Where one is needed, let the code read it from the environment."
)
"""To a reply whose code is not what the model wrote."""

_FEW_LINES, _SHORT = 6, 400
"""Lines, and characters of them all, up to which a result is said once more."""
_MOST_CHANGED = 4_000
"""Characters that are shown of a block that a person has changed."""

_WRONG = re.compile(r"^(?:WRONG|FAIL(?:ED)?)\b", re.MULTILINE)

_GO_ON = (
    "If this answers the whole task, reply in words, every figure copied exactly as it is printed here. If anything "
    "that was asked for is missing, reply with the code for it."
)

_CUT_OFF = (
    "The program was stopped while this code ran. Nothing was run a second time: what had ended is shown as it was "
    "recorded. Variables and the working directory may be lost. Look at what is there, then send the code for the rest."
)

_EMPTY = (
    "The result is empty. Check the condition before you answer: print a few values of each column that it uses, to see "
    "how they are written."
)
_NOTHING_LEFT = "Send the corrected code. If there is really nothing of the kind, say so in words."

_PROBLEMS = {
    "too_long": f"Your reply was longer than {MAX_REPLY:,} characters, so it was not read and nothing of it was run. "
    "Reply again in a few steps: one short block at a time.",
    "unclosed": "A code block of your reply has no closing ```, so it was not run. Send the whole block again, shorter "
    "if it was cut off, and close it.",
    "nested": "A code block of your reply holds the beginning of another block, so it is not clear where it ends, and "
    "it was not run. Send it again: close each block before the next, and put code that holds ``` itself between ```` "
    "and ````.",
}


def nudge(
    reading: Reading, reply: str, *, cut_off: bool, ran: bool, failed: bool, asked: bool, need: Need
) -> str | None:
    """What to say to a reply without code that can run; None where it is the answer.

    Args:
        reading: what was found in `reply`; it has no blocks.
        cut_off: whether the model says that it had to end.
        ran: whether anything has run.
        failed: whether the block that ran last failed.
        asked: whether the reply before had no code either.
        need: how much the task needs that something runs, where nothing has yet.
    """
    if reading.problem:
        return _PROBLEMS[reading.problem]
    if cut_off:
        return CUT_OFF
    if not reply.strip():
        return f"Your reply was empty. Go on with the task, or say what the answer is. {_CODE}"
    # So may JSON that has the keys of a call, once it is said again.
    if reading.imitated_call and (failed or not ran or not asked):
        return (
            f"Nothing was run: calls in JSON or XML mean nothing here. Write code that does the same. {_CODE}"
        )
    if reading.empty:
        return f"Nothing was run: the block was empty. {_CODE}"
    # Once something has run, such blocks may be part of the answer.
    if reading.others and (failed or not ran or not asked):
        return f"Nothing was run: {_languages(reading)} Write it in Python or bash. {_CODE} If it was part of your answer, say so in words."
    code = not asked and any(map(reads_like_code, reading.untagged_texts))
    if reading.untagged and (failed or not ran or code):
        return f"Nothing was run: the block does not say its language. {_CODE}"
    if failed:
        return MEND
    if need is Need.NONE:
        return None
    return UNSURE if need is Need.PERHAPS else DO


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
    guided: bool = False,
    imports: Mapping[str, str] = MappingProxyType({}),
    then: str | None = None,
    cut_off: bool = False,
) -> str:
    """What a reply's blocks printed, each labelled, as the next user message.

    Args:
        blocks: all of them in order, as a person let them run.
        outcomes: of all blocks, in order.
        reading: the reply; what it holds besides is mentioned at the end.
        repeats: how many times in this run the code that ended last had run before, just as it is.
        limit: characters of output that are shown, shared evenly by the blocks.
        guided: whether to say how to go on: where all went well, and what to write after an error.
        imports: for that, name -> the line that imports it, of functions that the model is told of.
        then: for that, what is to be done next where all went well; None: to answer, or write what is missing.
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
        next_line = advice(ran[-1]["output"], imports, ran[-1]["code"]) if guided else ""
        said.append(
            f"{next_line}\n\nSend the whole corrected block."
            if next_line
            else "Read the error, mend its cause and send the whole corrected block."
        )
    elif guided and ran and not repeats:
        last = ran[-1]
        nothing = shows_nothing(last["output"])
        said.append(_empty(last) if nothing else then or f"{_result(last['output'])}{_GO_ON}")
    if repeats and not failed and then:
        said.append(f"That code has run before, and answers something else.\n\n{then}")
    elif repeats:
        said.append(_repeated(repeats, failed=bool(failed)))
    if reading.problem:
        said.append(_PROBLEMS[reading.problem])
    if reading.others:
        said.append(_languages(reading))
    return "\n\n".join(said)


def checks_failed(output: str) -> bool:
    """Whether a block has printed that a check of its own was not met."""
    return _WRONG.search(output) is not None


def another_way(last: Execution, imports: Mapping[str, str] = MappingProxyType({})) -> str:
    """What a guided model is told in place of its turns that failed, of the last one."""
    output = last["output"]
    instead = advice(output, imports, last["code"]) or (
        "Do it in another way, in smaller steps: first print the values you need, then go on in the next reply."
    )
    return f"Code for this was tried, and failed{shown(error_of(output), 1_500)}\n\n{instead}"


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


def _empty(last: Execution) -> str:
    why = in_lists(last["output"], last["code"])
    return f"The result is empty. {why} {_NOTHING_LEFT}" if why else f"{_EMPTY} {_NOTHING_LEFT}"


def _result(output: str) -> str:
    """The few figures of a result among lines about the files: a figure of those is easily taken for one."""
    results = results_of(output)
    among = len(results) < len(output.strip().splitlines())
    few = 0 < len(results) <= _FEW_LINES and sum(map(len, results)) <= _SHORT
    if not among or not few or not labelled(results):
        return ""
    return f"The result is: {'; '.join(results)}\n\n"


def _repeated(times: int, *, failed: bool) -> str:
    if failed:
        return "You sent exactly this code before, and it failed before. Sending it again cannot help: change it."
    return (
        f"You sent exactly this code {'before' if times == 1 else f'{times} times before'}. If its output answers the "
        "task, reply with the answer and no code."
    )


def _languages(reading: Reading) -> str:
    return f"{', '.join(reading.others)} cannot run here, only Python and bash can."
