"""What a model is told of the blocks of its reply, marked for who shows it (see `libs.middleware.told`).

The mark `"blocks"` holds of each in order `{key, language, exit_code, seconds, refused}`: `exit_code` and
`seconds` are None where it did not run, `refused` is the reason of a person who refused it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import HumanMessage

from libs.code_blocks.feedback import Outcome
from libs.code_blocks.protocol import Refused
from libs.code_blocks.state import Approved
from libs.middleware.told import told

__all__ = ["told_of_blocks"]


def told_of_blocks(said: str, blocks: Sequence[Approved], outcomes: Sequence[Outcome]) -> HumanMessage:
    """The message; `outcomes` are of all the blocks of a reply, in order."""
    return told(said, blocks=[_mark(*each) for each in zip(blocks, outcomes, strict=True)])


def _mark(block: Approved, outcome: Outcome) -> dict[str, Any]:
    done = None if isinstance(outcome, Refused) else outcome
    return {
        "key": block["key"],
        "language": block["language"],
        "exit_code": done["exit_code"] if done else None,
        "seconds": done["seconds"] if done else None,
        "refused": outcome.reason if isinstance(outcome, Refused) else None,
    }
