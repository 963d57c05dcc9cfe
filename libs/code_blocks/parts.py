"""What a task asks for, one by one: of a question with two parts a small model answers one."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["asks_how_many", "listed", "parts_of", "questions_of", "words_of"]

_SENTENCE = re.compile(
    r"(?<=[?!])\s+|(?<=\w{2}\.)\s+(?=[A-Z])|(?<=\w): (?=(?:how|what|when|where|which|who)\b)"
)
_ASKED = r"(?:(?:at|by|for|from|in|of|on|to|with) (?:the \w+ of )?)?(?:how|what|when|where|which|who|whose)\b"
_QUESTION = re.compile(rf"(?:and |but )?{_ASKED}", re.IGNORECASE)
_NEXT = re.compile(rf",? (?:and|but) (?={_ASKED})|, (?=how\b)", re.IGNORECASE)
"""Where another begins. A comma alone may begin a clause as well: the baker, who sells bread."""
_HOW_MANY = re.compile(
    r"(?:and )?(?:(?:at|for|from|in|of|on|with) )?how many (?!(?:kg|g|grams|kilo\w*|litres|km|metres|hours|"
    r"minutes|seconds|percent|euros?|dollars?|degrees|more|less|fewer)\b)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[a-z0-9]+")
_LITTLE = re.compile(
    r"a|an|and|are|at|by|did|do|does|for|from|had|has|have|how|in|is|it|its|many|much|name|of|on|the|to|was|were|what|when|"
    r"where|which|who|with|there"
)
"""Words that say nothing of what a question is about."""
_MOST = 5
_WHOLE = 5
"""Words from which on a question can stand alone."""
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


def questions_of(task: str) -> list[str]:
    """The questions in a task that say by themselves what is asked, in order; [] where there is but one.

    "And how much?" belongs to the question before it.
    """
    found = [part for part in parts_of(task) if len(part.split()) >= _WHOLE]
    return found if len(found) > 1 else []


def listed(parts: Sequence[str]) -> str:
    """What a task asks for, each with its number on a line of its own."""
    return "\n".join(f"{number}. {part}" for number, part in enumerate(parts, 1))


def asks_how_many(part: str) -> bool:
    """Whether the answer to a part of a task is a count."""
    return _HOW_MANY.match(part) is not None


def words_of(text: str) -> set[str]:
    """Words that say what a text is about, in small letters and without the s of a plural."""
    return {word.removesuffix("s") for word in _WORD.findall(text.lower()) if not _LITTLE.fullmatch(word)}
