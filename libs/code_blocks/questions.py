"""The questions of a task, put to a small model one by one: of two that it is asked at once it answers one."""

# ruff: noqa: E501 - prose

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, Self

from libs.code_blocks import feedback
from libs.code_blocks.emptiness import results_of
from libs.code_blocks.parts import asks_how_many, listed, questions_of, words_of
from libs.code_blocks.protocol import Execution
from libs.code_blocks.state import CodeState

__all__ = ["PRINT", "Questions", "alone", "wants_code"]

_ALONE = "Now write the code for this question alone, and print its answer with a label: "
PRINT = "Write the code that prints what is asked for and not printed yet, each with a label."
"""To an answer with figures that nothing has printed."""
_IN_SUM = (
    "Now answer the whole task in words, without code, a sentence for each of these, every figure copied exactly as it was "
    "printed:"
)
_LABEL = re.compile(r"^(?:\W|\d)*([A-Za-z][^:={}\[\]]*?)(?::| =|=)\s*\S")
_COUNTS = frozenset(("count", "number", "row"))
_SAME = (
    (re.compile(r"\b(?:add up|altogether|in all|sum|total)\b", re.IGNORECASE), frozenset(("sum", "total"))),
    (re.compile(r"\b(?:average|mean)\b", re.IGNORECASE), frozenset(("average", "mean"))),
    (
        re.compile(r"\b(?:dearest|largest|highest|longest|most)\b", re.IGNORECASE),
        frozenset(("first", "most")),
    ),
)
"""How a question is worded -> what its answer may be labelled with instead."""
_LINES = 8
"""Lines of each output that the model is reminded of: the largest come first."""
_REMINDED = 800
"""Characters of all of them."""
_WHOLE = -1
"""In place of a question: all of them."""


class Questions(NamedTuple):
    """What a task asks, where that is several things; for others, and for models that need no guiding, nothing."""

    asked: Sequence[str]
    put: list[int]
    """Those that the model was asked by themselves, by their place."""
    executions: Sequence[Execution]

    @classmethod
    def of(cls, state: CodeState, executions: Sequence[Execution], *, guided: bool) -> Self:
        asked = questions_of(state["task"]) if guided else []
        return cls(asked, list(state.get("questioned") or []), executions)

    @property
    def pending(self) -> bool:
        """Whether one was put by itself, and the whole task is not come back to yet."""
        return bool(self.put) and self.put[-1] != _WHOLE

    def next(self) -> tuple[str, list[int]] | None:
        """What to say when code has gone well, and what is put with that; None where nothing is left to be put.

        A question is put where nothing that was printed has a label with a word that this one alone has: such
        a label says that the code was written for it, a bare table does not.
        """
        results = [line for each in self._printed() for line in results_of(each)]
        labels = {word for line in results if (label := _LABEL.match(line)) for word in words_of(label[1])}
        about = [_about(question) for question in self.asked]
        for place, question in enumerate(self.asked):
            others = set[str]().union(*about[:place], *about[place + 1 :])
            own = about[place] - others or about[place]
            if place not in self.put and not own & labels:
                return alone(question), [*self.put, place]
        return self.whole() if self.pending else None

    def whole(self) -> tuple[str, list[int]]:
        """Ask for the answer to all of them."""
        lines = dict.fromkeys(line for each in self._printed()[:-1] for line in results_of(each)[:_LINES])
        reminder = f"\nPrinted before: {'; '.join(lines)}"[:_REMINDED] if lines else ""
        return f"{_IN_SUM}\n{listed(self.asked)}{reminder}", [*self.put, _WHOLE]

    def again(self) -> str:
        """The one that was put last."""
        return alone(self.asked[self.put[-1]])

    def _printed(self) -> list[str]:
        return [each["output"] for each in self.executions if not each["exit_code"]]


def alone(question: str) -> str:
    """Ask for the code for one question of a task."""
    return f"{_ALONE}{question}"


def wants_code(said: str) -> bool:
    """Whether nothing but code can be the reply to that."""
    return said in (feedback.MEND, feedback.DO) or said.rpartition("\n\n")[2].startswith((_ALONE, PRINT))


def _about(question: str) -> set[str]:
    """Words of which a label of its answer has one."""
    same = {word for wording, words in _SAME if wording.search(question) for word in words}
    return words_of(question) | same | (_COUNTS if asks_how_many(question) else set())
