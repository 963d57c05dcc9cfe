"""Find where to cut a reply in which the model invents the output of its code."""

from __future__ import annotations

import re

from libs.code_blocks.block_reader import read_reply

__all__ = ["first_block", "imagined"]

_IMAGINED = re.compile(
    r"^(?:`{3,}output\b|(?:The (?:python|bash) block|Block \d+ \((?:python|bash)\)) (?:succeeded|failed)\b)",
    re.MULTILINE,
)

_FENCE = re.compile(r"^[ >]*(?:`{3,}|~{3,})[ \t]*$", re.MULTILINE)
"""A line that can close a block."""


def first_block(reply: str) -> int | None:
    """Return the index of the end of the first runnable block, or None."""
    for found in _FENCE.finditer(reply):
        if read_reply(reply[: found.end()]).blocks:
            return found.end()
    return None


def imagined(reply: str) -> int | None:
    """Return the index at which a reply begins to imitate the loop's output messages, or None."""
    for found in _IMAGINED.finditer(reply):
        before = read_reply(reply[: found.start()])
        if before.blocks and before.problem is None:  # otherwise the match is inside a block
            return found.start()
    return None
