"""How notes and errors write the paths of files."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["quoted_path", "with_reasons"]

_MOST_WITH_REASONS = 10
"""Files that a note names, each with the reason."""
_LONGEST = 120
"""Characters of a path in a note."""


def quoted_path(path: str) -> str:
    """Return a path in quotes for a note or an error, in ASCII. `…` stands for the middle of a long path."""
    shown = ascii(path)
    half = _LONGEST // 2
    return shown if len(shown) <= _LONGEST else f"{shown[:half]}…{shown[-half:]}"


def with_reasons(files: Sequence[tuple[str, str]]) -> str:
    """Return names with their reasons for a note: at most ten, with a file for each reason first."""
    firsts: dict[str, str] = {}
    others: list[tuple[str, str]] = []
    for name, why in files:
        if why in firsts:
            others.append((name, why))
        else:
            firsts[why] = name
    shown = [*((name, why) for why, name in firsts.items()), *others][:_MOST_WITH_REASONS]
    told = ", ".join(f"{name} ({why})" for name, why in shown)
    return f"{told}, and {len(files) - len(shown)} more" if len(files) > len(shown) else told
