"""The turns of a thread, and what going back to one of them changes, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agent.run import Point
from libs.sandbox import in_one_line
from libs.workspace.history import Moved

__all__ = ["moved_lines", "point_rows"]

_MOST_WORDS = 60
"""Characters of a message that the list shows."""
_MOST_PATHS = 5
"""Paths of a turn that the list shows."""


def point_rows(points: Sequence[Point]) -> list[tuple[str, ...]]:
    """Return a row for each turn: number, end, the person's words, changed files."""
    return [
        (str(point.number), point.at[:16].replace("T", " "), _short(point.words), _files(point))
        for point in points
    ]


def moved_lines(moved: Moved, verb: str) -> Iterator[str]:
    """Yield a line for each path with what happens to it. `verb`: such as `was`."""
    if moved.instead:
        yield f"Note: {moved.instead}."
    difference = moved.restored.difference
    parts: Mapping[str, Sequence[str]] = {
        "brought back": difference.created,
        "changed back": difference.changed,
        "deleted": difference.deleted,
    }
    for what, paths in parts.items():
        yield from (f"{in_one_line(path)}  {verb} {what}" for path in paths)
    for path in moved.restored.unlisted:
        yield f"{in_one_line(path)}  cannot be read now: what {verb} changed in it is not listed"
    for path, why in moved.restored.kept.items():
        yield f"{in_one_line(path)}  {verb} kept: {why}"
    if not difference and not moved.restored.kept:
        yield "No file differs."


def _files(point: Point) -> str:
    if point.number == 0:
        return "(before the first turn)"
    if point.changed is None:
        return "(not kept)"
    parts = zip("+~-", point.changed.difference.parts, strict=True)
    marked = [f"{mark}{in_one_line(path)}" for mark, paths in parts for path in paths]
    left_out = [f"{in_one_line(path)} ({why})" for path, why in point.changed.not_kept.items()]
    shown = [_cut(marked, " ")] if marked else []
    return "; ".join([*shown, f"not kept: {_cut(left_out, ', ')}"] if left_out else shown)


def _cut(paths: Sequence[str], between: str) -> str:
    more = len(paths) - _MOST_PATHS
    return between.join(paths[:_MOST_PATHS]) + (f" and {more} more" if more > 0 else "")


def _short(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= _MOST_WORDS else line[: _MOST_WORDS - 1] + "…"
