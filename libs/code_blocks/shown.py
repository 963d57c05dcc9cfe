"""Outputs and code as messages show them: cut in the middle, in a fence that nothing in them closes."""

from __future__ import annotations

import re

__all__ = ["fenced", "shortened", "shown"]


def shortened(text: str, limit: int) -> str:
    """`text`, or its beginning and end with a line between that counts what is left out."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"


def shown(output: str, limit: int) -> str:
    """An output in a fence that nothing in it can close."""
    text = shortened(output.rstrip("\n"), limit)
    if not text:
        return " and printed nothing."
    return f":\n{fenced(text, 'output')}"


def fenced(text: str, tag: str) -> str:
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{tag}\n{text}\n{fence}"
