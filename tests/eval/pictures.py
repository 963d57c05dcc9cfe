"""Checks of plots by what can be measured in them: size, bars and lines of one colour."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Sequence

from tests.eval.task import Check, Outcome, Unsolved

__all__ = ["bars", "dots", "line_through", "png_size", "svg_labels"]

Colour = tuple[int, int, int]

_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
RED: Colour = (255, 0, 0)


def _decode(content: bytes) -> list[list[Colour]]:
    """The pixels of a PNG file of 8 bits a channel that is not interlaced, as plotting libraries write it."""
    if content[:8] != b"\x89PNG\r\n\x1a\n":
        raise Unsolved("the plot is no PNG file")
    place, data, palette = 8, b"", b""
    header = (0, 0, 0, 0, 0, 0, 0)
    while place + 8 <= len(content):
        size, kind = struct.unpack_from(">I4s", content, place)
        body = content[place + 8 : place + 8 + size]
        place += 12 + size
        if kind == b"IHDR":
            header = struct.unpack(">IIBBBBB", body)
        elif kind == b"PLTE":
            palette = body
        elif kind == b"IDAT":
            data += body
    width, height, depth, kind_of_colour, _, _, interlaced = header
    if depth != 8 or interlaced or width * height > 20_000_000 or kind_of_colour not in _CHANNELS:
        raise Unsolved("the plot cannot be read")
    step = _CHANNELS[kind_of_colour]
    try:
        raw = zlib.decompress(data)
    except zlib.error as error:
        raise Unsolved("the plot is broken") from error
    if len(raw) < height * (1 + width * step):
        raise Unsolved("the plot is broken off")
    picture = []
    above = bytearray(width * step)
    for top in range(height):
        start = top * (1 + width * step)
        line = _unfiltered(raw[start], bytearray(raw[start + 1 : start + 1 + width * step]), above, step)
        picture.append([_colour(line[at : at + step], palette) for at in range(0, width * step, step)])
        above = line
    return picture


def _unfiltered(kind: int, line: bytearray, above: bytearray, step: int) -> bytearray:
    """One line without its filter (PNG specification, section 9)."""
    if kind == 0:
        return line
    for at in range(len(line)):
        left = line[at - step] if at >= step else 0
        corner = above[at - step] if at >= step else 0
        up = above[at]
        guess = (0, left, up, (left + up) // 2, _paeth(left, up, corner))[kind]
        line[at] = (line[at] + guess) & 255
    return line


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda each: abs(guess - each))


def _colour(pixel: Sequence[int], palette: bytes) -> Colour:
    if len(pixel) >= 3:
        return pixel[0], pixel[1], pixel[2]
    if palette:
        at = 3 * pixel[0]
        return palette[at], palette[at + 1], palette[at + 2]
    return pixel[0], pixel[0], pixel[0]


def _heights(content: bytes, colour: Colour) -> list[int]:
    """For each column of the picture, how many pixels are of about this colour."""
    picture = _decode(content)
    counts = [0] * len(picture[0])
    for line in picture:
        for at, pixel in enumerate(line):
            if all(abs(one - other) <= 60 for one, other in zip(pixel, colour, strict=True)):
                counts[at] += 1
    return counts


def bars(name: str, values: Sequence[float], *, colour: Colour = RED) -> Check:
    """The PNG file has one bar of the colour for each value, from left to right, as high in proportion."""

    def check(outcome: Outcome) -> None:
        found: list[int] = []
        inside = False
        for height in _heights(outcome.machine.file(name), colour):
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
    """The PNG file has a line of the colour through these values at even distances, checked at each."""

    def check(outcome: Outcome) -> None:
        picture = _decode(outcome.machine.file(name))
        tops: dict[int, float] = {}
        for at in range(len(picture[0])):
            marked = [
                top
                for top, line in enumerate(picture)
                if all(abs(one - other) <= 60 for one, other in zip(line[at], colour, strict=True))
            ]
            if marked:
                tops[at] = sum(marked) / len(marked)
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


def dots(name: str, points: Sequence[tuple[float, float]], *, colour: Colour = RED) -> Check:
    """The PNG file has one dot of the colour for each point, where it should be beside the others.

    No two points may have nearly the same x: dots are told apart by it. A grid line may run across a dot.
    """

    def check(outcome: Outcome) -> None:
        picture = _decode(outcome.machine.file(name))
        free = {
            (at, top)
            for top, line in enumerate(picture)
            for at, pixel in enumerate(line)
            if all(abs(one - other) <= 60 for one, other in zip(pixel, colour, strict=True))
        }
        reach = 1 + len(picture[0]) // 300
        around = [(right, down) for right in range(-reach, reach + 1) for down in range(-reach, reach + 1)]
        shown = []
        while free:
            spot, found = [free.pop()], 0
            while found < len(spot):  # all that is near what was found
                at, top = spot[found]
                near = {(at + right, top + down) for right, down in around} & free
                free -= near
                spot += near
                found += 1
            if found > 2:
                shown.append((sum(at for at, _ in spot) / found, -sum(top for _, top in spot) / found))
        if len(shown) != len(points):
            raise Unsolved(f"{name} shows {len(shown)} dots of the colour, not {len(points)}")
        for made, right in zip(_in_square(shown), _in_square(points), strict=True):
            if any(abs(one - other) > 0.03 for one, other in zip(made, right, strict=True)):
                raise Unsolved(f"{name}: the dots are not where they should be")

    return check


def _in_square(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points from left to right, moved and stretched to fill a square of side 1."""
    left, low = (min(point[axis] for point in points) for axis in (0, 1))
    width, height = (max(point[axis] for point in points) - least for axis, least in ((0, left), (1, low)))
    return sorted(((x - left) / (width or 1), (y - low) / (height or 1)) for x, y in points)


def png_size(name: str, width: int, height: int) -> Check:
    """The PNG file has this size in pixels."""

    def check(outcome: Outcome) -> None:
        content = outcome.machine.file(name)
        if content[:8] != b"\x89PNG\r\n\x1a\n":
            raise Unsolved("the plot is no PNG file")
        made = struct.unpack_from(">II", content, 16)
        if made != (width, height):
            raise Unsolved(f"{name} is {made[0]} x {made[1]} pixels, not {width} x {height}")

    return check


def svg_labels(name: str, labels: Sequence[str], *, without: Sequence[str] = ()) -> Check:
    """The SVG file shows these texts in this order, and none of `without`.

    Letters that are drawn as paths count by the comment beside them.
    """

    def check(outcome: Outcome) -> None:
        text = outcome.machine.file(name).decode("utf-8", "replace")
        if "<svg" not in text:
            raise Unsolved(f"{name} is no SVG file")
        words = [
            (comment or label).strip()
            for comment, label in re.findall(r"<!--(.*?)-->|<text[^>]*>([^<]*)", text, re.DOTALL)
        ]
        shown = list(dict.fromkeys(word for word in words if word in {*labels, *without}))
        if shown != list(labels):
            raise Unsolved(f"{name} shows the labels {', '.join(shown) or 'none'}, not {', '.join(labels)}")

    return check
