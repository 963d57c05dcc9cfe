"""The arguments of each file operation, which are checked before a request is sent."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Final

from libs.sandbox.protocol import FileFailed

__all__ = ["CHANGES", "MAX_PATH", "check_arguments", "encoded"]

CHANGES = ("write", "edit", "delete")
"""File operations that change something."""
MAX_PATH: Final = 4095
"""Bytes of the longest path: PATH_MAX of Linux, see path_resolution(7)."""

_ARGUMENTS: Final[Mapping[str, Mapping[str, tuple[type, ...]]]] = {
    "page": {"path": (str,), "offset": (int,), "limit": (int,), "text": (bool,)},
    "edit": {"path": (str,), "old": (str,), "new": (str,), "replace_all": (bool,)},
    "glob": {"path": (str,), "pattern": (str,)},
    "grep": {"path": (str,), "text": (str,), "pattern": (str, NoneType), "most": (int, NoneType)},
    "ls": {"path": (str,)},
    "delete": {"path": (str,)},
    "read": {"path": (str,)},
    "write": {"path": (str,), "replace": (bool,)},
}
"""Operation -> its arguments and their types. `write` has a content, too."""


def check_arguments(do: str, content: bytes | None, arguments: Mapping[str, Any]) -> None:
    """Refuse a file operation that cannot be sent.

    Raises:
        ValueError: there is no such operation, or the offset is negative.
        TypeError: an argument is missing, unknown or of another type, or the content is.
        FileFailed: a path is not valid, or a text is not text.
    """
    if do not in _ARGUMENTS:
        raise ValueError(f"there is no file operation {do!r}: the operations are {', '.join(_ARGUMENTS)}")
    takes = _ARGUMENTS[do]
    if wrong := sorted(takes.keys() ^ arguments.keys()):
        raise TypeError(f"{do}: {wrong[0]} is missing or unknown; the arguments are {', '.join(takes)}")
    for name, kinds in takes.items():
        kind = type(arguments[name])
        if not issubclass(kind, kinds) or (kind is bool and bool not in kinds):  # a bool is an int, too
            expected = " or ".join(each.__name__ for each in kinds)
            raise TypeError(f"{do}: {name} is {kind.__name__}, and {expected} is needed")
    if (content is None) is (do == "write") or not isinstance(content, bytes | bytearray | NoneType):
        raise TypeError(f"{do}: `content` must be bytes for `write`, and left out for other operations")
    if arguments.get("offset", 0) < 0:
        raise ValueError(f"{do}: offset is {arguments['offset']}, the number of lines to skip")
    _check_texts(arguments)


def _check_texts(arguments: Mapping[str, Any]) -> None:
    if "\0" in arguments["path"]:
        raise FileFailed("invalid_path", "a path cannot hold a NUL character")
    for name, text in arguments.items():
        if isinstance(text, str):
            try:
                # What is written is UTF-8. A path, or a text to search for, may have other bytes.
                size = len(encoded(text, any_bytes=name not in ("old", "new")))
            except ValueError as error:
                raise FileFailed("invalid_path" if name == "path" else "half_character", str(error)) from None
            if name == "path" and size > MAX_PATH:
                raise FileFailed(
                    "invalid_path", f"the path has {size:,} bytes: a path has at most {MAX_PATH:,}"
                )


def encoded(text: str, *, any_bytes: bool = False) -> bytes:
    """Encode a text as UTF-8.

    Args:
        any_bytes: whether the text may hold bytes that are not UTF-8, as surrogates, like `os.fsdecode` gives
            them for file names. They are kept.

    Raises:
        ValueError: the text holds half of a surrogate pair.
    """
    try:
        return text.encode("utf-8", "surrogateescape" if any_bytes else "strict")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"character {error.start + 1} is half of a surrogate pair, which is not text"
        ) from None
