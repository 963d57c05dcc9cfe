"""Finds the pictures that a call has made, changed and deleted, for the person who decides on the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from libs.workspace import Entry, Manifest
from libs.workspace.history import Effect, EffectRuns

__all__ = ["pictures_of", "pixels"]

_NAMES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg")
_MOST: Final = 4
"""Pictures of one call."""
_MOST_BYTES: Final = 4 * 1024 * 1024
_HEAD: Final = 1024 * 1024
"""Bytes in which the header of a picture is looked for."""
_SOF: Final = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
"""Markers of the part of a JPEG file that has the size."""


async def pictures_of(
    runs: EffectRuns, effect: Effect, files: tuple[Manifest, Manifest], clean: Callable[[str], str]
) -> tuple[list[dict[str, Any]], int]:
    """Return the first four pictures of at most 4 MiB, and the number of other files with such names.

    A picture is `{"path", "before": {"bytes", "pixels"}, "after": …}`. `before` or `after` is None if there
    was no file then. `pixels` is `[width, height]`, None for SVG.

    Args:
        files: the files before and after the call.
        clean: returns a path as a person sees it. A path that this changes cannot be asked for.
    """
    found: list[dict[str, Any]] = []
    created, changed, deleted = effect.difference.parts
    named = [path for path in (*deleted, *changed, *created) if path.lower().endswith(_NAMES)]
    for path in named:
        before, after = (manifest.entries.get(path) for manifest in files)
        if len(found) == _MOST or clean(path) != path:
            continue
        sides = [
            entry and await _picture(runs, capture, path, entry)
            for capture, entry in ((effect.before, before), (effect.after, after))
        ]
        if {} not in sides:
            found.append({"path": path, "before": sides[0], "after": sides[1]})
    return found, len(named) - len(found)


async def _picture(runs: EffectRuns, capture: str, path: str, entry: Entry) -> dict[str, Any]:
    """Return the sizes of a picture. Empty: the file is no picture, or too large."""
    if entry.kind != "file" or entry.size > _MOST_BYTES:
        return {}
    if path.lower().endswith(".svg"):
        return {"bytes": entry.size, "pixels": None}
    size = pixels(await runs.read(capture, path) or b"")
    return {"bytes": entry.size, "pixels": list(size)} if size else {}


def pixels(content: bytes) -> tuple[int, int] | None:
    """Return width and height of a PNG, JPEG, GIF or WebP file by its header. None: it is no such file.

    Nothing is decoded, because an agent has made the file.
    """
    size = 0, 0
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        size = int.from_bytes(content[16:20]), int.from_bytes(content[20:24])
    elif content.startswith((b"GIF87a", b"GIF89a")):
        size = _little(content[6:8]), _little(content[8:10])
    elif content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        size = _of_webp(content)
    elif content.startswith(b"\xff\xd8\xff"):
        size = _of_jpeg(content[:_HEAD])
    return size if all(size) else None


def _of_webp(content: bytes) -> tuple[int, int]:
    match content[12:16] if len(content) >= 30 else b"":
        case b"VP8 ":
            return _little(content[26:28]) & 0x3FFF, _little(content[28:30]) & 0x3FFF
        case b"VP8L":
            bits = _little(content[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return _little(content[24:27]) + 1, _little(content[27:30]) + 1
    return 0, 0


def _of_jpeg(content: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(content) and content[at] == 0xFF:
        if (marker := content[at + 1]) in _SOF:
            return int.from_bytes(content[at + 7 : at + 9]), int.from_bytes(content[at + 5 : at + 7])
        # A marker may be preceded by fill bytes, each 0xFF.
        at += 1 if marker == 0xFF else 2 + max(int.from_bytes(content[at + 2 : at + 4]), 2)
    return 0, 0


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
