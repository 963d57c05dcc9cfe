"""Finds the way from a thread's first checkpoint to its latest one."""

from __future__ import annotations

from dataclasses import dataclass

from libs.persistence.served_saver import ServedSaver

__all__ = ["Ancestor", "lineage"]


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A checkpoint on the way to a thread's latest one."""

    id: str
    source: str
    """`input` for the begin of a run, `loop` for a step; see LangGraph's CheckpointMetadata."""
    parent: str | None = None


async def lineage(saver: ServedSaver, thread_id: str) -> list[Ancestor]:
    """Return the checkpoints from a thread's first to its latest, without abandoned branches."""
    async with saver.transaction() as do:
        rows = await do(
            f"SELECT checkpoint_id, parent_checkpoint_id, {saver.spelling.source} FROM checkpoints "  # noqa: S608
            "WHERE thread_id = ? AND checkpoint_ns = ''",
            thread_id,
        )
    found = {str(id_): (parent, source) for id_, parent, source in rows}
    line: list[Ancestor] = []
    # Checkpoint ids begin with their time.
    at = max(found, default=None)
    while at is not None and at in found:
        parent, source = found[at]
        line.append(Ancestor(at, str(source), parent))
        at = parent
    return line[::-1]
