"""Draws the plots of a run, and the pictures that a call has changed, at a terminal.

A picture is decoded and scaled in the sandbox, and only its pixels leave the sandbox: no decoder of the host
reads bytes that the agent made. `textual-image` draws the pixels as sixels, with kitty's protocol, or as half
blocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import secrets
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from PIL import Image
from rich.console import Console

from agent.listing import is_plot
from agent.run import Runtime
from agent.terminal.harmless_text import harmless
from libs.workspace import SnapshotsUnavailable

if TYPE_CHECKING:
    from libs.backends.docker import DockerExecutionBackend

__all__ = ["show_effect", "show_plot", "show_plots"]

_MOST = 3
"""Plots that are drawn of one run; others are only named."""
_COLUMNS, _ROWS = 80, 30
"""Largest size of a plot on the screen, in characters."""
_SIZE = 960, 600
"""Largest size of a picture from the sandbox, in pixels."""
_SECONDS = 30
_GAP = 8
"""Pixels between two pictures that are drawn side by side."""

_PROGRAM = """
import struct, sys
from PIL import Image
path, out, width, height = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
Image.MAX_IMAGE_PIXELS = 50_000_000
with Image.open(path) as image:
    image.draft("RGB", (width, height))
    image = image.convert("RGBA")
image.thumbnail((width, height))
white = Image.new("RGBA", image.size, "white")
white.alpha_composite(image)
with open(out, "xb") as file:
    file.write(struct.pack(">HH", *image.size) + white.convert("RGB").tobytes())
"""


class _NoPicture(Exception):
    """The file cannot be shown as a picture; the message says why."""


async def show_plots(files: Sequence[str], sandbox: DockerExecutionBackend, console: Console) -> None:
    """Show the first three plots among the files of a run; see `show_plot`."""
    for path in [path for path in files if is_plot(path)][:_MOST]:
        await show_plot(path, sandbox, console)


async def show_plot(path: str, sandbox: DockerExecutionBackend, console: Console) -> str | None:
    """Show one plot of the workspace; return the reason if it was not shown, else None."""
    draw = await _drawing(console)
    if draw is None:
        return "this terminal draws no pictures"
    if path.lower().endswith(".svg"):
        return "it is an SVG: open the file"
    try:
        picture = await _pixels(f"/workspace/{path}", sandbox)
    except _NoPicture as error:
        return harmless(str(error))
    await _print(draw, picture, console)
    return None


async def show_effect(effect: Mapping[str, Any], runtime: Runtime, thread: str, console: Console) -> None:
    """Draw the first three pictures that a call has changed, each before and after the call, side by side.

    Draws nothing at a terminal that draws no pictures, and no SVG. The question has the sizes.

    Args:
        effect: the effect in the question about the call.
    """
    pictures = [each for each in effect.get("pictures", ()) if not each["path"].lower().endswith(".svg")]
    draw = await _drawing(console) if pictures else None
    if draw is None:
        return
    for picture in pictures[:_MOST]:
        moments = [moment for moment in ("before", "after") if picture[moment]]
        try:
            sides = [
                await _captured(runtime, thread, effect["key"], picture["path"], begin=moment == "before")
                for moment in moments
            ]
        except (_NoPicture, SnapshotsUnavailable) as error:
            console.print(harmless(f"{picture['path']} is not shown: {error}"))
            continue
        console.print(harmless(f"{picture['path']}, {' | '.join(moments)}:"))
        await _print(draw, _side_by_side(sides), console)


async def _captured(runtime: Runtime, thread: str, key: str, path: str, *, begin: bool) -> Image.Image:
    """Return a picture as it was before or after a call, decoded in the sandbox."""
    points = await runtime.points(thread)
    content = await points.content(await points.at_call(key, begin=begin), path)
    place = f"/tmp/.shown-{secrets.token_hex(8)}"  # noqa: S108 - in the sandbox
    with runtime.within(thread) as sandbox:
        await sandbox.aupload_files([(place, content)])
        try:
            return await _pixels(place, sandbox)
        finally:
            await sandbox.aexecute(shlex.join(["rm", "-f", place]), timeout=_SECONDS)


def _side_by_side(pictures: Sequence[Image.Image]) -> Image.Image:
    width = sum(each.width for each in pictures) + _GAP * (len(pictures) - 1)
    whole = Image.new("RGB", (width, max(each.height for each in pictures)), "white")
    at = 0
    for each in pictures:
        whole.paste(each, (at, 0))
        at += each.width + _GAP
    return whole


async def _drawing(console: Console) -> Any:
    terminal = console.is_terminal and not console.is_dumb_terminal and sys.stdin.isatty()
    return await asyncio.to_thread(_renderable, console) if terminal else None


async def _print(draw: Any, picture: Image.Image, console: Console) -> None:
    width, height = min(console.width - 1, _COLUMNS), min(console.height - 2, _ROWS)
    await asyncio.to_thread(console.print, draw(picture, "auto", "auto"), width=width, height=height)


def _renderable(console: Console) -> Any:
    """Return the class that draws at this terminal, or None. The first call asks the terminal (0.2 s)."""
    drawn = _supported()
    from textual_image.renderable import HalfcellImage, SixelImage, TGPImage

    colours = console.color_system in ("256", "truecolor") and not console.no_color
    return drawn if drawn in (SixelImage, TGPImage) or (drawn is HalfcellImage and colours) else None


@functools.cache
def _supported() -> Any:
    """Ask the terminal which graphics it supports, once: keys that a person types meanwhile are lost."""
    # textual-image logs a traceback for terminals that do not report the size of a character.
    logging.getLogger("textual_image").setLevel(logging.ERROR)
    from textual_image.renderable import Image as Drawn

    with contextlib.suppress(ImportError):  # Windows
        import termios

        termios.tcflush(sys.stdin, termios.TCIFLUSH)  # drop a late answer of the terminal, which is not a key
    return Drawn


async def _pixels(path: str, sandbox: DockerExecutionBackend) -> Image.Image:
    """Read a picture at a path in the sandbox, scaled to fit, on a white background.

    Raises:
        _NoPicture: the file cannot be read, or is not a picture.
    """
    out = f"/tmp/.shown-{secrets.token_hex(8)}"  # noqa: S108 - in the sandbox
    arguments = [path, out, *map(str, _SIZE)]
    # -I: Python imports nothing from folders that the agent can write.
    done = await sandbox.aexecute(shlex.join(["python3", "-I", "-c", _PROGRAM, *arguments]), timeout=_SECONDS)
    if done.exit_code != 0:
        lines = done.output.strip().splitlines()
        raise _NoPicture(lines[-1][:300] if lines else "it could not be read")
    [answer] = await sandbox.adownload_files([out])
    await sandbox.aexecute(shlex.join(["rm", "-f", out]), timeout=_SECONDS)
    content = answer.content or b""
    # The sandbox is not trusted: check that the number of pixels fits the size.
    size = int.from_bytes(content[:2]), int.from_bytes(content[2:4])
    fits = 0 < size[0] <= _SIZE[0] and 0 < size[1] <= _SIZE[1]
    if not fits or len(content) != 4 + 3 * size[0] * size[1]:
        raise _NoPicture("its pixels could not be read")
    return Image.frombytes("RGB", size, content[4:])
