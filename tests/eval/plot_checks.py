"""Checks of plots: bars and lines of one colour."""

from __future__ import annotations

import io
from collections.abc import Sequence

from PIL import Image

from tests.eval.task import Check, Outcome, Unsolved

__all__ = ["bars", "line_through"]

Colour = tuple[int, int, int]

RED: Colour = (255, 0, 0)
MOST_PIXELS = 20_000_000
NEAR = 60
"""Largest difference of each channel from the wanted colour."""


def _columns_of(content: bytes, colour: Colour) -> list[list[int]]:
    """Return for each column of a PNG file the rows, from the top, with about this colour."""
    try:
        picture = Image.open(io.BytesIO(content), formats=["PNG"])
        width, height = picture.size
        if width * height > MOST_PIXELS:
            raise Unsolved("the plot is too large to be read")
        pixels = picture.convert("RGB").tobytes()
    except (OSError, SyntaxError) as error:
        raise Unsolved("the plot is not a PNG file") from error
    columns: list[list[int]] = [[] for _ in range(width)]
    near = [bytes(abs(value - wanted) <= NEAR for value in range(256)) for wanted in colour]
    red, green, blue = (pixels[channel::3].translate(table) for channel, table in enumerate(near))
    for at, matches in enumerate(zip(red, green, blue, strict=True)):
        if all(matches):
            columns[at % width].append(at // width)
    return columns


def bars(name: str, values: Sequence[float], *, colour: Colour = RED) -> Check:
    """The PNG file has one bar of the colour for each value, from left to right, as high in proportion."""

    def check(outcome: Outcome) -> None:
        found: list[int] = []
        inside = False
        for column in _columns_of(outcome.machine.file(name), colour):
            height = len(column)
            if height > 2:
                found = [*found[:-1], max(found[-1], height)] if inside else [*found, height]
            inside = height > 2
        if len(found) != len(values):
            raise Unsolved(f"{name} shows {len(found)} bars of the colour, not {len(values)}")
        shown = [height / max(found) for height in found]
        right = [value / max(values) for value in values]
        if any(abs(one - other) > 0.025 for one, other in zip(shown, right, strict=True)):
            heights = [f"{one:.2f} for {other:.2f}" for one, other in zip(shown, right, strict=True)]
            raise Unsolved(f"{name}: the heights are {', '.join(heights)}")

    return check


def line_through(name: str, values: Sequence[float], *, colour: Colour = RED) -> Check:
    """The PNG file has a line of the colour through these values at even distances."""

    def check(outcome: Outcome) -> None:
        columns = _columns_of(outcome.machine.file(name), colour)
        tops = {at: sum(rows) / len(rows) for at, rows in enumerate(columns) if rows}
        if len(tops) < 2:
            raise Unsolved(f"{name} shows no line of the colour")
        first, last = min(tops), max(tops)
        places = [first + (last - first) * index / (len(values) - 1) for index in range(len(values))]
        shown = [-tops[min(tops, key=lambda at: abs(at - place))] for place in places]
        low, high = min(shown), max(shown)
        span = max(values) - min(values)
        for height, value in zip(shown, values, strict=True):
            if high == low or abs((height - low) / (high - low) - (value - min(values)) / span) > 0.08:
                raise Unsolved(f"{name}: the line does not run through the right values")

    return check
