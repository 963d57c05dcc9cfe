"""One cell: its text without extra spaces, and the texts that mean "no value"."""

from __future__ import annotations

import re

_SPACES = re.compile("[ \t\u00a0\u1680\u2000-\u200b\u202f\u205f\u3000\ufeff]+")
MISSING = frozenset(("", "n/a", "na", "null", "nan", "none", "<na>", "#n/a"))
# "No value" in a column of numbers or dates, but ordinary text in a text column.
NO_VALUE = frozenset(
    (
        *("-", "--", "---", "–", "—", "?", "??", ".", "..", "...", "…", "n.a.", "n. a.", "nil", "nat"),
        *("unknown", "missing", "tbd", "tba", "pending", "undefined", "not available"),
        *("0000-00-00", "0000-00-00 00:00:00", "00/00/0000", "00.00.0000"),
        *("#ref!", "#value!", "#div/0!", "#name?", "#num!", "#null!"),
    )
)


def clean(text: str) -> str:
    """Return the text without outer spaces, and with single spaces inside."""
    if text.isascii() and "  " not in text and "\t" not in text:
        return text.strip()
    return _SPACES.sub(" ", text).strip()


def folded(text: str) -> str:
    """Return the text without spaces and in lower case, to compare spellings."""
    return "".join(text.split()).casefold()


def counted(number: int, what: str) -> str:
    """Return a number with its noun: 1 row, 2,000 rows."""
    return f"{number:,} {what if number == 1 else what + 's'}"
