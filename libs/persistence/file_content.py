"""The content of a thread's file, with the file's mode."""

from __future__ import annotations

from typing import Self

__all__ = ["MODE", "FileContent", "mode_of"]

MODE = 0o644
"""Mode of a file for which none is known."""


class FileContent(bytes):
    """Bytes that know the mode of their file. A store that keeps objects keeps the mode, too."""

    mode: int

    def __new__(cls, content: bytes, mode: int = MODE) -> Self:
        made = super().__new__(cls, content)
        made.mode = mode & 0o777
        return made


def mode_of(content: bytes) -> int:
    """Return the mode that a content knows, or MODE."""
    return content.mode if isinstance(content, FileContent) else MODE
