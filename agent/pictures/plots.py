"""Plots of a run put on the screen, where the terminal can draw. They are named anyway."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from rich.console import Console
from rich.segment import Segments

from agent.pictures.capable import Canvas, canvas
from agent.pictures.drawn import half_blocks, iterm2, kitty, sixel
from agent.pictures.pixels import NoPicture, Pixels, read_pixels
from agent.produced import is_plot
from agent.show import harmless

if TYPE_CHECKING:
    from libs.backends.docker import DockerExecutionBackend

__all__ = ["show_plot", "show_plots"]

_MOST = 3
"""Plots that are shown of one run; the others are named."""
_WIDTH, _HEIGHT = 960, 600
_COLOURS = 64
_BLOCKS = 80, 24
"""Columns and rows of a picture made of characters, at most."""
_asked = cache(canvas)


async def show_plots(files: Sequence[str], sandbox: DockerExecutionBackend, console: Console) -> None:
    """Show the plots among the files that a run has made, the first three; see `show_plot`."""
    for path in [path for path in files if is_plot(path)][:_MOST]:
        await show_plot(path, sandbox, console)


async def show_plot(path: str, sandbox: DockerExecutionBackend, console: Console) -> str | None:
    """Show one plot.

    Args:
        path: where it is, relative to the workspace.
        sandbox: the computer that has it.
        console: where to.

    Returns:
        Why it was not shown, for people; None where it was.
    """
    if not console.is_terminal or (surface := await asyncio.to_thread(_surface, console)) is None:
        return "this terminal draws no pictures"
    if path.lower().endswith(".svg"):
        return "it is an SVG: open the file"
    columns, rows = surface.columns - 1, surface.rows - 2
    try:
        if surface.protocol == "blocks":
            size = {"width": min(columns, _BLOCKS[0]), "height": 2 * min(rows, _BLOCKS[1])}
            pixels = await read_pixels(sandbox, path, **size)
            console.print(Segments(half_blocks(pixels)), end="", crop=False, soft_wrap=True)
            return None
        width = max(min(columns * surface.cell[0], _WIDTH), 16)
        height = max(min(rows * surface.cell[1], _HEIGHT), 16)
        colours = _COLOURS if surface.protocol == "sixel" else 0
        pixels = await read_pixels(sandbox, path, width=width, height=height, colours=colours)
    except NoPicture as error:
        return harmless(str(error))
    await asyncio.to_thread(_draw, surface, pixels)
    return None


def _surface(console: Console) -> Canvas | None:
    depth = {"256", "truecolor"}
    return _asked(colours=console.color_system in depth and not console.no_color)


def _draw(surface: Canvas, pixels: Pixels) -> None:
    drawn = {"kitty": kitty, "iterm2": iterm2, "sixel": sixel}[surface.protocol](pixels)
    sys.stdout.write(f"{drawn}\n")
    sys.stdout.flush()
