"""What a terminal can draw: asked of it, in sequences that every terminal answers or leaves alone.

The kitty graphics protocol, iTerm2's inline images, and sixel have each a question. The last one sent,
"device attributes", is answered by every terminal there is, so nobody waits for an answer that does not come;
who does not answer even that gets no picture.
"""

from __future__ import annotations

import os
import re
import select
import sys
import time
from dataclasses import dataclass
from typing import Literal

__all__ = ["Canvas", "canvas"]

Protocol = Literal["kitty", "iterm2", "sixel", "blocks"]

_QUESTIONS = (
    "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\"  # kitty: would it take one pixel?
    "\x1b[>q"  # its name and version
    "\x1b[16t"  # pixels of one character: height, width
    "\x1b[c"  # device attributes; 4 among them is sixel
)
_KITTY = re.compile(rb"\x1b_Gi=31;OK\x1b\\")
_NAME = re.compile(rb"\x1bP>\|([^\x1b]*)\x1b\\")
_CELL = re.compile(rb"\x1b\[6;(\d{1,4});(\d{1,4})t")
_ATTRIBUTES = re.compile(rb"\x1b\[\?([\d;]*)c")
_SECONDS = 1.0
_DUMB = {"", "dumb", "unknown", "linux"}


@dataclass(frozen=True, slots=True)
class Canvas:
    """How a terminal draws, and how much room there is."""

    protocol: Protocol
    columns: int
    rows: int
    cell: tuple[int, int] = (8, 16)
    """Width and height of a character in pixels."""


def canvas(*, colours: bool) -> Canvas | None:
    """What the terminal of this program can draw; None: nothing, or nobody knows. Blocks for 1 s at most.

    Keys pressed meanwhile are lost.

    Args:
        colours: whether characters may have colours, for pictures made of half blocks.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "") in _DUMB:
        return None
    answer = _ask()
    if not (attributes := _ATTRIBUTES.search(answer)):
        return None
    size = os.get_terminal_size(sys.stdout.fileno())
    room = (size.columns or 80, size.lines or 24)
    cell = _cell(answer)
    name = found[1] if (found := _NAME.search(answer)) else b""
    if _KITTY.search(answer):
        return Canvas("kitty", *room, cell)
    if name.startswith((b"iTerm2", b"WezTerm")):
        return Canvas("iterm2", *room, cell)
    if b"4" in attributes[1].split(b";"):
        return Canvas("sixel", *room, cell)
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return Canvas("blocks", *room) if colours and unicode else None


def _cell(answer: bytes) -> tuple[int, int]:
    if found := _CELL.search(answer):
        height, width = int(found[1]), int(found[2])
        if 0 < width <= 200 and 0 < height <= 400:
            return width, height
    return 8, 16


def _ask() -> bytes:
    """All that the terminal answers."""
    try:
        import termios
        import tty
    except ImportError:  # Windows
        return b""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    answer = b""
    sys.stdout.flush()
    try:
        # Neither shown nor held back until a line is whole; Ctrl-C stays what it is.
        tty.setcbreak(keyboard, termios.TCSAFLUSH)
        os.write(sys.stdout.fileno(), _QUESTIONS.encode())
        deadline = time.monotonic() + _SECONDS
        while not _ATTRIBUTES.search(answer) and len(answer) < 65_536:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([keyboard], [], [], left)[0]:
                break
            answer += os.read(keyboard, 4096)
    finally:
        termios.tcsetattr(keyboard, termios.TCSAFLUSH, before)
    return answer
