"""Types of settings: how each is read from text and checked."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from annotated_types import Ge, Le
from pydantic import AfterValidator, BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_settings import NoDecode

from libs.sandbox import LEARNED_MOUNT

__all__ = [
    "Feeds",
    "ModelName",
    "Names",
    "PathPatterns",
    "SearchProvider",
    "SkillFolders",
    "Url",
    "bounds_of",
    "comma_list",
    "size",
]

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def size(low: str, high: str) -> BeforeValidator:
    """Make the validator of a size such as `512m` or `2g` (units of 1024), in bytes, from `low` to `high`."""

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


def bounds_of(field: FieldInfo) -> tuple[str, str] | None:
    """Return the least and the greatest value of a number as text; None for a field without both."""
    low = next((bound.ge for bound in field.metadata if isinstance(bound, Ge)), None)
    high = next((bound.le for bound in field.metadata if isinstance(bound, Le)), None)
    return None if low is None or high is None else (_number(low), _number(high))


def _number(bound: Any) -> str:
    """Return a bound with thousands separators, and without decimals if it is whole."""
    return f"{int(bound) if bound == int(bound) else bound:,}"


def comma_list(value: object) -> object:
    """Split a text at commas; return any other value unchanged."""
    return [item for part in value.split(",") if (item := part.strip())] if isinstance(value, str) else value


def _like(pattern: str, rule: str) -> AfterValidator:
    """Make the validator of a text that matches a pattern; `rule` says what the pattern allows."""

    def read(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(rule)
        return value

    return AfterValidator(read)


def _feeds(value: tuple[str, ...]) -> tuple[str, ...]:
    for url in value:
        if not re.match(r"https?://[^/{}]+/", url):
            raise ValueError(f"{url} must begin with http:// or https:// and a host")
        if "@" in url.split("/")[2]:
            raise ValueError("a feed with a password would bring it into the sandbox: use EGRESS_CREDENTIALS")
    return value


def _path_patterns(value: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in value:
        if not pattern.startswith("/") or ".." in pattern.split("/"):
            raise ValueError(f"{pattern} must begin with / and hold no .. such as /results/**")
    return value


def _skill_folders(value: tuple[Path, ...]) -> tuple[Path, ...]:
    # Without `..` and links: the last part of the path is the folder's name in /skills.d.
    folders = tuple(path.resolve() for path in value)
    for path in folders:
        if not path.is_dir():
            raise ValueError(f"{path} is not a folder")
        if path.name == PurePosixPath(LEARNED_MOUNT).name:
            raise ValueError(f"{path}: skills that agents propose go by this name: rename the folder")
        if not path.name:
            raise ValueError(f"{path} would show the agent the whole machine")
    if len({path.name for path in folders}) < len(folders):
        raise ValueError("two folders have the same name, and so the same place in /skills.d")
    return folders


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(comma_list)]
PathPatterns = Annotated[
    tuple[str, ...], NoDecode, BeforeValidator(comma_list), AfterValidator(_path_patterns)
]
SkillFolders = Annotated[
    tuple[Path, ...], NoDecode, BeforeValidator(comma_list), AfterValidator(_skill_folders)
]
ModelName = Annotated[
    str, _like(r"local|[^:\s]+:\S.*", "must be provider:model, local, local:<file.gguf> or scripted:<file>")
]
Url = Annotated[str, _like(r"(?s)https?://[^/].*", "must begin with http:// or https://")]
SearchProvider = Annotated[str, _like(r"brave|searxng|fake:\S.*", "must be brave, searxng or fake:<file>")]
Feeds = Annotated[tuple[str, ...], NoDecode, BeforeValidator(comma_list), AfterValidator(_feeds)]
