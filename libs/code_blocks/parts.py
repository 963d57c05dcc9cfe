"""What a task asks for, one by one: of a question with two parts a small model answers one."""

from __future__ import annotations

import re

__all__ = ["parts_of"]

_SENTENCE = re.compile(
    r"(?<=[?!])\s+|(?<=\w{2}\.)\s+(?=[A-Z])|(?<=\w): (?=(?:how|what|when|where|which|who)\b)"
)
_ASKED = r"(?:(?:at|by|for|from|in|of|on|to|with) (?:the \w+ of )?)?(?:how|what|when|where|which|who|whose)\b"
_QUESTION = re.compile(rf"(?:and |but )?{_ASKED}", re.IGNORECASE)
_NEXT = re.compile(rf",? (?:and|but) (?={_ASKED})|, (?=how\b)", re.IGNORECASE)
"""Where another begins. A comma alone may begin a clause as well: the baker, who sells bread."""
_MOST = 5
_LONG = 300
"""Characters over which a part is shortened."""


def parts_of(task: str) -> list[str]:
    """The questions in a task, in order; [] where there is but one, or it is not put as questions.

    In "Which is the oldest, and how old is it?" there are two.
    """
    found = []
    for sentence in _SENTENCE.split(" ".join(task.split())):
        if _QUESTION.match(sentence) and sentence.endswith("?"):
            found += [part.strip(" ,")[:_LONG] for part in _NEXT.split(sentence)]
    return found[:_MOST] if len(found) > 1 else []
