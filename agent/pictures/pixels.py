"""A picture of the workspace as pixels: read, scaled and, for sixel, reduced to few colours inside."""

from __future__ import annotations

import secrets
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from libs.backends.docker import DockerExecutionBackend

__all__ = ["NoPicture", "Pixels", "read_pixels"]

_PROGRAM = """
import struct, sys
from PIL import Image
path, out, width, height, colours = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
Image.MAX_IMAGE_PIXELS = 50_000_000
with Image.open(path) as image:
    image.draft("RGB", (width, height))
    image = image.convert("RGBA")
image.thumbnail((width, height))
white = Image.new("RGBA", image.size, "white")
white.alpha_composite(image)
image = white.convert("RGB")
palette = b""
if colours:
    image = image.quantize(colours, dither=Image.Dither.NONE)
    palette = bytes(image.getpalette("RGB") or ())[: 3 * colours].ljust(3 * colours, bytes(1))
with open(out, "xb") as file:
    file.write(struct.pack(">HH", *image.size) + palette + image.tobytes())
"""
_SECONDS = 30


class NoPicture(Exception):
    """The file cannot be shown as a picture; `str(error)` says why."""


@dataclass(frozen=True, slots=True)
class Pixels:
    """Rows from the top, pixels from the left."""

    width: int
    height: int
    data: bytes
    """Three bytes a pixel, red, green and blue; with a palette one byte, a place in it."""
    palette: bytes = b""
    """Three bytes a colour."""


async def read_pixels(
    sandbox: DockerExecutionBackend, path: str, *, width: int, height: int, colours: int = 0
) -> Pixels:
    """Read a picture, scaled down to fit into `width` times `height`.

    Args:
        sandbox: the computer that has it.
        path: where, relative to the workspace.
        width: pixels, at most 65,535.
        height: likewise.
        colours: 0 for all; else the most there may be, up to 256, with a palette of that many.

    Raises:
        NoPicture: it cannot be read, or is none.
    """
    out = f"/tmp/.shown-{secrets.token_hex(8)}"  # noqa: S108 - in the sandbox
    arguments = [f"/workspace/{path}", out, str(width), str(height), str(colours)]
    # -I: nothing from the folder or the home that the agent may write is imported.
    done = await sandbox.aexecute(shlex.join(["python3", "-I", "-c", _PROGRAM, *arguments]), timeout=_SECONDS)
    if done.exit_code != 0:
        lines = done.output.strip().splitlines()
        raise NoPicture(lines[-1][:300] if lines else "it could not be read")
    [answer] = await sandbox.adownload_files([out])
    await sandbox.aexecute(shlex.join(["rm", "-f", out]), timeout=_SECONDS)
    return _checked(answer.content or b"", width, height, colours)


def _checked(content: bytes, width: int, height: int, colours: int) -> Pixels:
    """The pixels, where they are what was asked for: the sandbox is not to be trusted."""
    found = int.from_bytes(content[:2]), int.from_bytes(content[2:4])
    each = 1 if colours else 3
    start = 4 + 3 * colours
    fits = 0 < found[0] <= width and 0 < found[1] <= height
    if not fits or len(content) != start + found[0] * found[1] * each:
        raise NoPicture("its pixels could not be read")
    data = content[start:]
    if colours and max(data) >= colours:
        raise NoPicture("its colours could not be read")
    return Pixels(*found, data, content[4:start])
