"""Find the question that each part of an answer belongs to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from libs.middleware.approvals.decisions import WrongAnswer

__all__ = ["NothingWaits", "answers_by_id", "has_only_ids"]

_INTERRUPT_ID = re.compile(r"[0-9a-f]{32}")


class NothingWaits(ValueError):
    """The thread has no question, so an answer is of no use."""

    def __init__(self) -> None:
        super().__init__("Nothing in this thread waits for approval.")


def has_only_ids(answer: Mapping[str, Any]) -> bool:
    """Return whether all keys of an answer are ids of interrupts, by LangGraph's own rule."""
    return all(_INTERRUPT_ID.fullmatch(str(key)) for key in answer)


def answers_by_id(answer: Any, waiting: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return question id -> answer.

    An answer without ids answers the only question. If each call of a reply is a question of its own,
    `{"decisions": [...]}` without ids answers all questions of one reply, in order. The order of questions of
    parallel subagents is not certain, so their answers need ids.

    Args:
        answer: the answer as it was sent. An object whose keys are all ids is returned as it is.
        waiting: id -> question.

    Raises:
        WrongAnswer: the answer needs ids, or has the wrong number of decisions.
    """
    if isinstance(answer, dict) and has_only_ids(answer):
        return answer
    if len(waiting) <= 1:
        return dict.fromkeys(waiting, answer)
    decisions = answer.get("decisions") if isinstance(answer, dict) else None
    groups = {question.get("group", id_) for id_, question in waiting.items()}
    if isinstance(decisions, list) and len(groups) == 1 and len(decisions) == len(waiting):
        return dict(zip(waiting, decisions, strict=True))
    # No ids here: LangGraph may give a question another id when the question is asked again.
    raise WrongAnswer(
        f"An answer without ids came while {len(waiting)} questions waited. Answer each under the id of its "
        'interrupt: send {"<id>": {"decisions": [{"type": "approve"}]}, …}.'
    )
