"""Tells a person of output that looks like a secret which nobody told us of. Changes nothing."""

from __future__ import annotations

import logging

from langgraph.config import get_stream_writer

__all__ = ["suspected"]

logger = logging.getLogger(__name__)

_SHORTEST = 16
"""No secret of any kind has fewer characters."""
_LONGEST = 50_000
"""Characters that are searched: the search holds up the event loop, 20 ms for as many, 200 ms at worst."""


def suspected(output: str, call_id: str | None) -> None:
    """Tell of what looks like a secret in a command's output.

    Sends `{"type": "secret_suspected", "tool_call_id", "found"}` on LangGraph's custom stream, where `found`
    lists `{"kind", "line", "column", "sample"}`, and logs it. Neither holds the secret.
    """
    if len(output) < _SHORTEST:
        return

    from libs.gateway.secret_patterns import find_suspects  # takes 50 ms to import: not before a run

    if not (found := find_suspects(output[:_LONGEST])):
        return
    listed = ", ".join(f"{each.kind} {each.sample} in line {each.line}" for each in found)
    logger.info(
        "the output of a command holds what looks like a secret, and is kept in the thread as it is: %s",
        listed,
    )
    event = {
        "type": "secret_suspected",
        "tool_call_id": call_id,
        "found": [
            {"kind": each.kind, "line": each.line, "column": each.column, "sample": each.sample}
            for each in found
        ],
    }
    try:
        write = get_stream_writer()
    except (RuntimeError, KeyError):  # nobody's run: a test, a script
        return
    write(event)
