"""Reads the lines of a conversation from a pipe or a file."""

from __future__ import annotations

import sys

from agent.terminal import prompting

__all__ = ["PipedLines"]

_MOST = 1 << 20
"""Largest size of a line, in characters."""


class PipedLines:
    """Reads lines of standard input. Implements `agent.chat.chat_session.Lines`."""

    async def next(self, prompt: str, begun: str = "") -> str:  # noqa: ARG002 - a pipe has no prompt
        """Return the next line, which may be empty. Blocks the event loop: no turn is under way.

        Raises:
            EOFError: at the end of the input.
            KeyboardInterrupt: Ctrl-C.
            ValueError: the line is longer than 1 MB.
        """
        with prompting():
            line = sys.stdin.readline(_MOST)
        if not line:
            raise EOFError
        if len(line) == _MOST:
            raise ValueError("A line of the input is longer than 1 MB: it is not taken for a message.")
        return line.rstrip("\n")
