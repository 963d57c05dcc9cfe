"""How the values of settings are read from text."""

from __future__ import annotations

import re

from pydantic import BeforeValidator

__all__ = ["comma_list", "size"]

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def size(low: str, high: str) -> BeforeValidator:
    """Read a size such as `512m` or `2g` (units of 1024, `b` optional) into bytes, from `low` to `high`."""

    def in_bytes(text: str) -> int:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)b?", text.strip().lower())
        if not match:
            raise ValueError("must be a number with k, m, g or t, such as 512m or 2g")
        return int(float(match[1]) * _UNITS[match[2]])

    def read(value: object) -> int:
        size = value if isinstance(value, int) else in_bytes(str(value))
        if not in_bytes(low) <= size <= in_bytes(high):
            raise ValueError(f"must lie between {low} and {high}")
        return size

    return BeforeValidator(read)


def comma_list(value: object) -> object:
    return [item for part in value.split(",") if (item := part.strip())] if isinstance(value, str) else value
