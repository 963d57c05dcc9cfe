"""Which columns and values of the listing of /data a task names: a small model passes over half of them.

Asked for the dearest red boat, it sorts by price, and forgets that `colour` has the value 'red'.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["named_in"]

_COLUMN = re.compile(r"^- (.+?): (.*)$", re.MULTILINE)
_VALUE = re.compile(r"'([^'\n]{2,60})'")
_SHORT = 3
"""Letters below which a value is one only as it is written."""
_MOST = 8
"""Columns, and values, that are named at most."""


def named_in(task: str, listing: str) -> str:
    """A line such as "The task names colour 'red', price."; "" where it names nothing of the listing.

    A column counts as named where all words of its name are in the task, in the singular or plural; a value
    where it stands there as it is, in any case.
    """
    task = re.sub(r"/data\S*", " ", task)
    spoken = {_singular(word) for word in _words(task)}
    values: list[str] = []
    columns: list[str] = []
    for name, about in _columns(listing):
        found = [value for value in dict.fromkeys(_VALUE.findall(about)) if _stands_in(value, task)]
        if found:
            values.append(f"{name} {', '.join(map(repr, found))}")
        elif (words := _words(name)) and {_singular(word) for word in words} <= spoken:
            columns.append(name)
    shown = [*dict.fromkeys(values[:_MOST]), *dict.fromkeys(columns[:_MOST])]
    return f"The task names {'; '.join(shown)}." if shown else ""


def _columns(listing: str) -> Iterator[tuple[str, str]]:
    for found in _COLUMN.finditer(listing):
        yield found[1], found[2]


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]{2,}", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text))


def _singular(word: str) -> str:
    word = word.casefold()
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _stands_in(value: str, task: str) -> bool:
    if not any(char.isalpha() for char in value) or (len(value) < _SHORT and value.islower()):
        return False  # "in" may be a value, and is a word of every other task
    flags = re.IGNORECASE if len(value) >= _SHORT else re.NOFLAG
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", task, flags) is not None
