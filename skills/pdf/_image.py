"""Reads images of the workspace and scales them to the page."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from PIL import Image as Picture
from reportlab.platypus import Image

from skills.pdf._style import HEIGHT

WORKSPACE = Path("/workspace")
_FORMATS = ("PNG", "JPEG", "GIF", "BMP")
_POINTS_PER_PIXEL = 0.48  # 150 dots an inch, what plots are drawn with
_CAPTION = 40  # points of the page kept for text


def picture(source: str, width: float) -> Image:
    """Return the image at `source`, at most `width` points wide.

    Raises:
        ValueError: the file is not in /workspace, or is not an image.
    """
    file = _file(source)
    try:
        with Picture.open(file, formats=_FORMATS) as image:
            image.load()
            wide, high = image.size
    except (OSError, ValueError, Picture.DecompressionBombError) as error:
        raise ValueError(
            f"the image {source} cannot be read as one of {', '.join(_FORMATS)}: {error}"
        ) from error
    scale = min(_POINTS_PER_PIXEL, width / wide, (HEIGHT - _CAPTION) / high)
    return Image(str(file), width=wide * scale, height=high * scale, hAlign="LEFT")


def _file(source: str) -> Path:
    name = unquote(source)  # the parser has encoded spaces and umlauts
    if not name.isprintable() or "://" in name:
        raise ValueError(f"the image {source} is not a file in {WORKSPACE}; save it there first")
    places = [Path("/")] if name.startswith("/") else [WORKSPACE / "results", WORKSPACE]
    files = [(place / name).resolve() for place in places]
    inside = [file for file in files if file.is_relative_to(WORKSPACE.resolve()) and file.is_file()]
    if not inside:
        raise ValueError(f"the image {source} is not a file in {WORKSPACE}; save it there first")
    return inside[0]
