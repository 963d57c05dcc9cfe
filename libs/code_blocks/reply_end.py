"""Where the reply of a model ends that would go on to say what its code prints."""

from __future__ import annotations

import re

from libs.code_blocks.reader import read_reply

__all__ = ["first_block", "imagined"]

_IMAGINED = re.compile(
    r"^(?:`{3,}output\b|(?:The (?:python|bash) block|Block \d+ \((?:python|bash)\)) (?:succeeded|failed)\b)",
    re.MULTILINE,
)


_FENCE = re.compile(r"^[ >]*(?:`{3,}|~{3,})[ \t]*$", re.MULTILINE)
"""A line that can close a block."""


def first_block(reply: str) -> int | None:
    """Where the first block of a reply that can run ends; None where it has none so far."""
    for found in _FENCE.finditer(reply):
        if read_reply(reply[: found.end()]).blocks:
            return found.end()
    return None


def imagined(reply: str) -> int | None:
    """Where a reply goes on with what its code would print, which is for the next message to say; else None.

    Some models write on in the form of the messages they were sent before.
    """
    for found in _IMAGINED.finditer(reply):
        before = read_reply(reply[: found.start()])
        if before.blocks and before.problem is None:  # else it stands in code that has not ended there
            return found.start()
    return None
