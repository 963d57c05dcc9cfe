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
        *("#ref!", "#value!", "#div/0!", "#name?", "#num!", "#null!"),
    )
)


def clean(text: str) -> str:
    """The text without spaces around it, runs of spaces inside it as one."""
    return _SPACES.sub(" ", text).strip()
