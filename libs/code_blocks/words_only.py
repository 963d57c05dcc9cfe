"""Decide whether a reply without code is the answer or needs an objection."""

# ruff: noqa: E501 - prose

from __future__ import annotations

from langchain_core.messages import AIMessage

from libs.code_blocks.block_feedback import PROBLEMS, languages, without_result
from libs.code_blocks.block_protocol import Files
from libs.code_blocks.block_reader import Reading
from libs.code_blocks.block_state import CodeState
from libs.code_blocks.run_end_hooks import Ending
from libs.middleware.lost_replies import is_cut_off

__all__ = ["CUT_OFF", "MAX_NUDGES", "objection"]

MAX_NUDGES = 3
"""Objections in a row after which the run ends with `no_execution`."""

_CODE = (
    "Code runs when it stands in a block of its own that begins with ```python or ```bash and ends with ```."
)
_PART_OF_ANSWER = "If it was part of your answer, give the whole answer again."
CUT_OFF = "Your reply reached its greatest length and was cut off. Say it again, much shorter."
_UNSURE = (
    "Nothing has been run yet for the latest request. If any of your answer depends on files, on this computer, on the "
    f"date or on a calculation, write the code that finds it out. {_CODE} If none of it does, give the whole answer again."
)
"""Sent once, when the answer came before any code. Only the model knows whether the answer is a guess."""
_MEND = (
    "The last code failed and nothing has run since, so the task is not done. Mend the cause and send the whole corrected "
    f"block. {_CODE}"
)
"""Sent when a reply without code follows a failure."""
_NO_RESULT = (
    "The last code has no result and nothing has run since, so the task may not be done. The message about that code says why; "
    f"the code need not be at fault. Look at what is there, then send the code for the rest. {_CODE}"
)
"""Sent when a reply without code follows a block that did not run, or whose end is unknown."""


async def objection(
    state: CodeState,
    reply: AIMessage,
    reading: Reading,
    text: str,
    *,
    files: Files | None,
    ending: Ending | None,
) -> str | None:
    """Return the message to the model, or None if the reply is the answer.

    `text` is the text of `reply` without thoughts, and `reading` was read from it; `state` is from before.
    """
    last = state["executions"][-1] if state["executions"] else None
    refused = any("refused" in each for each in state["blocks"])
    cut_off = is_cut_off(reply)
    # Code that was refused or interrupted counts too: the model has written code.
    ran = last is not None or bool(state["blocks"])
    failed = last is not None and last["exit_code"] != 0 and not refused and not state.get("cut_off")
    if said := _about_text(reading, text, cut_off=cut_off, ran=ran, failed=failed, asked=state["nudges"] > 0):
        return said
    if last and failed:
        return _NO_RESULT if without_result(last) else _MEND
    replies = [message.text for message in state["messages"] if isinstance(message, AIMessage)]
    repeated = replies[-1:] == [reply.text]
    # Ask about a missing file once, as the task may be to remove it; again if the reply is only repeated.
    look = last is not None and not refused and (not state["nudges"] or repeated)
    if files and look and (absent := await files.absent(f"{state['task']}\n{text}")):
        made = await files.made()
        there = f" These are there: {', '.join(made)}." if made else ""
        return (
            f"There is no {', '.join(absent)}.{there} If the task asks for it, write the code that makes it; else give your "
            "answer again, without it."
        )
    if ending and not repeated and state["nudges"] < MAX_NUDGES:
        return await ending.objections()
    return None


def _about_text(
    reading: Reading, reply: str, *, cut_off: bool, ran: bool, failed: bool, asked: bool
) -> str | None:
    if reading.problem:
        return PROBLEMS[reading.problem]
    if cut_off:
        return CUT_OFF
    if not reply.strip():
        return f"Your reply was empty. Go on with the task, or say what the answer is. {_CODE}"
    if reading.empty:
        return f"Nothing was run: the block was empty. {_CODE}"
    # Nothing has run, or the last code failed: a block without a language is meant to run.
    if reading.untagged and (failed or not ran):
        return f"Nothing was run: the block does not say its language. {_CODE}"
    # After code has run, these may be part of the answer, so the model is asked once only.
    once = failed or not ran or not asked
    if reading.imitated_call and once:
        return (
            f"Nothing was run: calls in JSON or XML mean nothing here. Write code that does the same. {_CODE}"
        )
    if reading.others and once:
        return f"Nothing was run: {languages(reading)} Write it in Python or bash. {_CODE} {_PART_OF_ANSWER}"
    if reading.untagged and once:
        return f"Nothing was run: the block does not say its language. {_CODE} {_PART_OF_ANSWER}"
    return None if ran or asked else _UNSURE
