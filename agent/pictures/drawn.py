"""Pixels in the words of a terminal: kitty's protocol, iTerm2's inline images, sixel, half blocks."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Iterator

from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from agent.pictures.pixels import Pixels

__all__ = ["half_blocks", "iterm2", "kitty", "sixel"]

_CHUNK = 4096
_REPEATED = re.compile(rb"(.)\1{3,}", re.DOTALL)


def kitty(pixels: Pixels) -> str:
    """For the kitty graphics protocol: compressed RGB in chunks of 4,096 characters.

    `q=2`: the terminal answers nothing, which would come in as keys.
    """
    data = base64.b64encode(zlib.compress(pixels.data)).decode()
    pieces = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
    first = f"a=T,q=2,f=24,o=z,s={pixels.width},v={pixels.height},"
    return "".join(
        f"\x1b_G{first if index == 0 else ''}m={int(index < len(pieces) - 1)};{piece}\x1b\\"
        for index, piece in enumerate(pieces)
    )


def iterm2(pixels: Pixels) -> str:
    """For iTerm2's inline images: a PNG."""
    png = _png(pixels)
    size = f"size={len(png)};width={pixels.width}px;height={pixels.height}px"
    return f"\x1b]1337;File=inline=1;{size}:{base64.b64encode(png).decode()}\x07"


def sixel(pixels: Pixels) -> str:
    """Sixels, six rows a band and one line of it a colour. The pixels have a palette."""
    colours = "".join(
        f"#{index};2;" + ";".join(str(round(value / 2.55)) for value in pixels.palette[at : at + 3])
        for index, at in enumerate(range(0, len(pixels.palette), 3))
    )
    head = f'\x1bPq"1;1;{pixels.width};{pixels.height}'
    return f"{head}{colours}{''.join(_bands(pixels))}\x1b\\"


def half_blocks(pixels: Pixels) -> list[Segment]:
    """Characters whose upper half has the colour of one pixel, the ground that of the pixel below."""
    segments: list[Segment] = []
    for row in range(0, pixels.height, 2):
        for column in range(pixels.width):
            above = _colour(pixels, column, row)
            below = _colour(pixels, column, row + 1) if row + 1 < pixels.height else None
            segments.append(Segment("▀", Style(color=above, bgcolor=below)))
        segments.append(Segment("\n"))
    return segments


def _bands(pixels: Pixels) -> Iterator[str]:
    for top in range(0, pixels.height, 6):
        lines: dict[int, bytearray] = {}
        for bit, row in enumerate(range(top, min(top + 6, pixels.height))):
            for column, colour in enumerate(pixels.data[row * pixels.width : (row + 1) * pixels.width]):
                line = lines.get(colour)
                if line is None:
                    line = lines[colour] = bytearray(b"?" * pixels.width)
                line[column] += 1 << bit
        # $: back to the beginning of the band; -: on to the next one.
        yield "$".join(f"#{colour}{_shortened(line)}" for colour, line in lines.items()) + "-"


def _shortened(line: bytearray) -> str:
    return _REPEATED.sub(lambda found: b"!%d%c" % (len(found[0]), found[0][0]), bytes(line)).decode()


def _colour(pixels: Pixels, column: int, row: int) -> Color:
    at = 3 * (row * pixels.width + column)
    return Color.from_rgb(*pixels.data[at : at + 3])


def _png(pixels: Pixels) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", pixels.width, pixels.height, 8, 2, 0, 0, 0)
    step = 3 * pixels.width
    # Before each row, how it is filtered: not at all.
    rows = b"".join(b"\0" + pixels.data[at : at + step] for at in range(0, len(pixels.data), step))
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
