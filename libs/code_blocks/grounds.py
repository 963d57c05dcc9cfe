"""Whether the figures of an answer were printed, and are all there: a small model now and then makes one up."""

# ruff: noqa: E501 - prose

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_core.messages import HumanMessage

from libs.code_blocks.emptiness import shows_nothing
from libs.code_blocks.parts import asks_how_many, listed, parts_of, words_of
from libs.code_blocks.questions import PRINT, alone
from libs.code_blocks.state import CodeState

__all__ = ["doubtful", "uncounted", "unfounded"]

_FIGURE = re.compile(r"(?<![\w.,/-])(?:\d{4}-\d\d-\d\d|\d[\d,]*(?:\.\d+)?)(?![\w/]|-\d|\.\d)")
_IN_TEXT = re.compile(r"\d+(?:[.,']\d+)*")
_PATH = re.compile(r"/(?:data|results|scripts|workspace|tmp)/\S*|`[^`\n]*`")
_ITEM = re.compile(r"^\s*\d+[.)]\s", re.MULTILINE)
_WHOLE = re.compile(
    r"(?<![\w.,/-])\d[\d,]*(?![\w/.]|[-,]\d|\.\d)|(?<![\w.,/-])\d[\d,]*(?=\.(?:\s|$))|\b(?:no|none|zero|one|two|three|four|"
    r"five|six|seven|eight|nine|ten|eleven|twelve)\b",
    re.IGNORECASE,
)
_NO_COUNT = re.compile(r"\b(?:average|mean|median|decimals?|percent\w*|per)\b", re.IGNORECASE)
_NOTHING = re.compile(
    r"\b(?:no|not|none|nothing|never|nobody|zero|0|empty|without|any)\b|n't\b", re.IGNORECASE
)
"""Words of an answer that says that there is nothing of the kind."""
_FEW = 3
"""Digits below which a number may have been counted or read off by eye."""


_MOST = 5
"""Figures that are named of those that were not printed."""


def doubtful(answer: str, state: CodeState) -> str | None:
    """What to say to an answer after code has run; None where nothing of it is in doubt."""
    parts = parts_of(state["task"])
    listing = [message.text for message in state["opening"][-1:] if isinstance(message, HumanMessage)]
    said = [message.text for message in state["messages"]]
    printed = [each["output"] for each in state.get("executions") or []]
    if printed and shows_nothing(printed[-1]) and not _NOTHING.search(answer):
        return (
            "The last result was empty, and no code has run since. Send the corrected code: print a few values of each "
            "column that its condition uses, to see how they are written. If there is really nothing of the kind, say so."
        )
    if unknown := unfounded(answer, [*listing, *said, *printed]):
        asked = f" The task asks for:\n{listed(parts)}" if parts else ""
        return f"{', '.join(unknown[:_MOST])}: no code has printed that.{asked}\n\n{PRINT}"
    if missing := uncounted(answer, parts):
        return f"The answer lacks a whole number that is asked for.\n\n{alone(missing[0])}"
    return None


def unfounded(answer: str, seen: Sequence[str]) -> list[str]:
    """The dates and longer numbers of an answer that are in none of the texts that its writer has seen.

    One that is rounded from a number there is, the same with thousands marked, or a hundredth of one or a
    hundred times it (a share in percent), is founded.
    """
    text = "\n".join(seen)
    numbers = {_value(found) for found in _IN_TEXT.findall(text)} - {None}
    answer = _ITEM.sub(" ", _PATH.sub(" ", answer))
    return [
        found
        for found in dict.fromkeys(_FIGURE.findall(answer))
        if found not in text and not _founded(found, numbers)
    ]


def uncounted(answer: str, parts: Sequence[str]) -> list[str]:
    """The parts of a task that ask how many, where its answer has not a whole number for each: those that it
    does not speak of, where there are any.

    Numbers that the parts hold themselves are none of these: "14.6 lasted longer than 14 days".
    """
    asked = [part for part in parts if asks_how_many(part) and not _NO_COUNT.search(part)]
    text = _ITEM.sub(" ", _PATH.sub(" ", answer))
    given = [
        found for found in _WHOLE.findall(text) if not any(found in _IN_TEXT.findall(part) for part in parts)
    ]
    if len(given) >= len(asked):
        return []
    said = words_of(answer)
    # Of two, the one is not spoken of.
    alone = [words_of(part) - words_of(" ".join(each for each in asked if each != part)) for part in asked]
    return [part for part, own in zip(asked, alone, strict=True) if not own & said] or asked


def _founded(figure: str, numbers: set[float | None]) -> bool:
    if re.fullmatch(r"\d{4}-\d\d-\d\d", figure):
        return False
    if sum(char.isdigit() for char in figure) < _FEW:
        return True
    value = float(figure.replace(",", ""))
    decimals = len(figure.partition(".")[2])
    half = 0.5 * 10.0**-decimals + 1e-9
    return any(
        abs(value - number * factor) <= half
        for number in numbers
        if number is not None
        for factor in (1, 100, 0.01)
    )


def _value(written: str) -> float | None:
    plain = written.replace(",", "").replace("'", "")
    try:
        return float(plain)
    except ValueError:
        return None
