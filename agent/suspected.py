"""Tells a person of output that looks like a secret which is not among the known ones. Changes nothing."""

from __future__ import annotations

import logging

from langgraph.config import get_stream_writer

__all__ = ["suspected"]

logger = logging.getLogger(__name__)

_SHORTEST = 16
"""Characters of the shortest secret that a rule matches."""
_LONGEST = 200_000
"""Characters that are searched. The rest of a longer output is not."""


def suspected(output: str, call_id: str | None) -> None:
    """Report what looks like a secret in the first 200,000 characters of a command's output.

    Sends `{"type": "secret_suspected", "tool_call_id", "found"}` on LangGraph's custom stream, where `found`
    lists `{"kind", "line", "column", "sample"}`, and logs it. Neither holds the secret.

    Call it in a thread, not on an event loop: the first call imports the library, which reads the current
    folder, and the search of a hostile output takes about a second.
    """
    if len(output) < _SHORTEST:
        return

    from libs.gateway.unknown_secrets import find_unknown_secrets  # takes 0.1 s to import: not before a run

    if not (found := find_unknown_secrets(output[:_LONGEST])):
        return
    listed = ", ".join(f"{each.kind} {each.sample} in line {each.line}" for each in found)
    logger.info(
        "the output of a command holds what looks like a secret, and the thread keeps it unchanged: %s",
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
