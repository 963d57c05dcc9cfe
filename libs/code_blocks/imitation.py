"""Recognise a call in some vendor's format, which models write as text when they were trained on it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

__all__ = ["is_imitated_call"]

_NAMES = ("name", "tool", "tool_name", "function", "action")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "action_input", "tool_input", "kwargs")

_JSON = re.compile(
    rf"""\{{\s*["'](?:{"|".join(_NAMES)})["']\s*:\s*["'][^"'\n]{{1,100}}["']\s*,\s*["'](?:{"|".join(_ARGUMENTS)})["']\s*:"""
)
_TAGS = re.compile(
    r"<\|?/?(?:tool|function)[ _]?(?:call|use)s?\|?>|<(?:antml:)?invoke\s+name=|<function=[\w.-]+|"
    r"<\|?tool▁calls?|\[TOOL_CALLS?\]|<\|python_tag\|>",
    re.IGNORECASE,
)


def is_imitated_call(reply: str, data: Sequence[str]) -> bool:
    """Whether `reply`, or one of the blocks of data in it, is such a call: JSON in either order, or tags."""
    return bool(
        _JSON.search(reply) or _TAGS.search(reply) or any(_is_call(_loaded(each)) for each in [reply, *data])
    )


def _loaded(text: str) -> Any:
    text = text.strip()
    if not text.startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_call(value: Any) -> bool:
    if isinstance(value, list):
        return any(_is_call(item) for item in value if isinstance(item, dict))
    if not isinstance(value, dict):
        return False
    return any(isinstance(value.get(name), str) for name in _NAMES) and any(
        isinstance(value.get(name), dict) for name in _ARGUMENTS
    )
