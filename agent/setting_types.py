"""How the values of settings are read from text."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator
from pydantic_settings import NoDecode

from libs.middleware.skill_mounts import LEARNED_MOUNT

__all__ = [
    "Feeds",
    "ModelName",
    "Names",
    "SearchProvider",
    "SkillFolders",
    "Url",
    "comma_list",
    "size",
]

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


def _model_name(value: str) -> str:
    if value != "local" and not re.fullmatch(r"[^:\s]+:\S.*", value):
        raise ValueError("must be provider:model, local or scripted:<file>")
    return value


def _url(value: str) -> str:
    if not re.match(r"https?://[^/]", value):
        raise ValueError("must begin with http:// or https://")
    return value


def _search_provider(value: str) -> str:
    if value not in {"brave", "searxng"} and not re.fullmatch(r"fake:\S.*", value):
        raise ValueError("must be brave, searxng or fake:<file>")
    return value


def _feeds(value: tuple[str, ...]) -> tuple[str, ...]:
    for url in value:
        if not re.match(r"https?://[^/{}]+/", url):
            raise ValueError(f"{url} must begin with http:// or https:// and a host")
        if "@" in url.split("/")[2]:
            raise ValueError("a feed with a password would bring it into the sandbox: use EGRESS_CREDENTIALS")
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
SkillFolders = Annotated[
    tuple[Path, ...], NoDecode, BeforeValidator(comma_list), AfterValidator(_skill_folders)
]
ModelName = Annotated[str, AfterValidator(_model_name)]
Url = Annotated[str, AfterValidator(_url)]
SearchProvider = Annotated[str, AfterValidator(_search_provider)]
Feeds = Annotated[tuple[str, ...], NoDecode, BeforeValidator(comma_list), AfterValidator(_feeds)]
