"""The content of a thread's file, with the file's mode."""

from __future__ import annotations

from typing import Self

__all__ = ["DEFAULT_MODE", "FileContent", "mode_of"]

DEFAULT_MODE = 0o644
"""Mode of a file for which none is known."""


class FileContent(bytes):
    """Bytes that know the mode of their file. A store that keeps objects keeps the mode, too."""

    mode: int

    def __new__(cls, content: bytes, mode: int = DEFAULT_MODE) -> Self:
        made = super().__new__(cls, content)
        made.mode = mode & 0o777
        return made


def mode_of(content: bytes) -> int:
    """Return the mode that a content knows, or DEFAULT_MODE."""
    return content.mode if isinstance(content, FileContent) else DEFAULT_MODE
