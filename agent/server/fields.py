"""The fields that bodies of several routes have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.server.exchange import Refused

__all__ = ["include_steps", "no_other_keys", "task_in"]


def task_in(body: Mapping[str, Any]) -> str:
    """`input`: a string that is not blank.

    Raises:
        Refused: 400, it is anything else.
    """
    value = body.get("input")
    if not isinstance(value, str) or not value.strip():
        raise Refused(400, '"input" must be a string that is not blank.')
    return value


def include_steps(body: Mapping[str, Any]) -> bool:
    """`includeSteps`: true, or false where it is left out.

    Raises:
        Refused: 400, it is no boolean.
    """
    value = body.get("includeSteps", False)
    if not isinstance(value, bool):
        raise Refused(400, '"includeSteps" must be true or false.')
    return value


def no_other_keys(body: Mapping[str, Any], *known: str) -> None:
    """Refuse a key that means nothing: most often another one was meant.

    Raises:
        Refused: 400, there is one.
    """
    if unknown := sorted(body.keys() - set(known)):
        raise Refused(400, f'There is no "{unknown[0][:100]}" here; known are {", ".join(known)}.')
