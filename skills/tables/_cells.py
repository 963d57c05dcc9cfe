"""One cell: its text without stray spaces, and whether it says that there is no value."""

from __future__ import annotations

import re

_SPACES = re.compile("[ \t\u00a0\u1680\u2000-\u200b\u202f\u205f\u3000\ufeff]+")
MISSING = frozenset(("", "n/a", "na", "null", "nan", "none", "<na>", "#n/a"))
# No value in a column of numbers or dates; elsewhere a text like any other.
NO_VALUE = frozenset(
    (
        *("-", "--", "---", "–", "—", "?", "??", ".", "..", "...", "…", "n.a.", "n. a.", "nil", "nat"),
        *("unknown", "missing", "tbd", "tba", "pending", "undefined", "not available"),
        *("0000-00-00", "0000-00-00 00:00:00", "00/00/0000", "00.00.0000"),
        *("#ref!", "#value!", "#div/0!", "#name?", "#num!", "#null!"),
    )
)


def clean(text: str) -> str:
    """The text without spaces around it, runs of spaces inside it as one."""
    if text.isascii() and "  " not in text and "\t" not in text:
        return text.strip()
    return _SPACES.sub(" ", text).strip()


def folded(text: str) -> str:
    """The text without what differs between spellings: capitals and spaces."""
    return "".join(text.split()).casefold()


def counted(number: int, what: str, several: str = "") -> str:
    """A number with its noun: 1 row, 2,000 rows."""
    return f"{number:,} {what if number == 1 else several or what + 's'}"
