"""What the program says to a model: a user's message that no user wrote, and that says so to who shows it.

Under `response_metadata`, which no model is sent and every client of the server is: `"said_by": "loop"`, and
where blocks were due, `"blocks"`: of each in order `{key, language, exit_code, seconds, refused}`, with
`exit_code` and `seconds` None where it did not run, `refused` the reason of a person who refused it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage

from libs.code_blocks.feedback import Outcome
from libs.code_blocks.protocol import Refused
from libs.code_blocks.state import Approved

__all__ = ["by_person", "told"]


def told(said: str, blocks: Sequence[Approved] = (), outcomes: Sequence[Outcome] = ()) -> HumanMessage:
    """The message; `outcomes` are of all the blocks of a reply, in order."""
    marks: dict[str, Any] = {"said_by": "loop"}
    if blocks:
        marks["blocks"] = [_mark(*each) for each in zip(blocks, outcomes, strict=True)]
    return HumanMessage(said, response_metadata=marks)


def by_person(message: AnyMessage) -> bool:
    """Whether a person has said it: not `told`, nor the summary of a conversation, which LangChain marks."""
    return (
        isinstance(message, HumanMessage)
        and "said_by" not in message.response_metadata
        and "lc_source" not in message.additional_kwargs
    )


def _mark(block: Approved, outcome: Outcome) -> dict[str, Any]:
    done = None if isinstance(outcome, Refused) else outcome
    return {
        "key": block["key"],
        "language": block["language"],
        "exit_code": done["exit_code"] if done else None,
        "seconds": done["seconds"] if done else None,
        "refused": outcome.reason if isinstance(outcome, Refused) else None,
    }
