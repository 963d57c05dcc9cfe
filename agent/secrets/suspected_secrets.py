"""Reports output that looks like an unknown secret to a person. Does not change the output."""

from __future__ import annotations

import logging
from dataclasses import asdict

__all__ = ["suspected"]

logger = logging.getLogger(__name__)

_SHORTEST = 16
"""Characters of the shortest secret that the rules match."""
_LONGEST = 200_000
"""Characters of an output that are searched."""


def suspected(output: str, call_id: str | None) -> None:
    """Report possible secrets in the first 200,000 characters of a command's output.

    Sends `{"type": "secret_suspected", "tool_call_id", "found"}` on LangGraph's custom stream, where `found`
    lists `{"kind", "line", "column", "sample"}`, and logs it. Neither holds the secret.

    Blocks: the first call imports a library, and searching a hostile output takes about a second. Call this
    function in a thread, not on an event loop.
    """
    if len(output) < _SHORTEST:
        return

    from libs.redaction.unknown_secrets import find_unknown_secrets  # the import takes 0.1 s

    if not (found := find_unknown_secrets(output[:_LONGEST])):
        return
    listed = ", ".join(f"{each.kind} {each.sample} in line {each.line}" for each in found)
    logger.info(
        "the output of a command holds what looks like a secret, and the thread keeps it unchanged: %s",
        listed,
    )
    from langgraph.config import get_stream_writer  # commands that run no graph do not need LangGraph

    try:
        write = get_stream_writer()
    except (RuntimeError, KeyError):  # outside of a run
        return
    listing = [asdict(each) for each in found]
    write({"type": "secret_suspected", "tool_call_id": call_id, "found": listing})
