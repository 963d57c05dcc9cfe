"""Read and check the skills that an agent proposes.

A proposal comes from the sandbox, so nothing in it is trusted. It is read once: the same content is checked,
shown to a person and stored, even if the folder changes in the meantime.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import PurePosixPath

from pydantic import BaseModel, ConfigDict, TypeAdapter

from libs.middleware.skills.skill_modules import parse_python
from libs.middleware.skills.skill_reading import SKILL_FILE
from libs.middleware.skills.skill_rules import (
    MAX_NAME_CHARS,
    UnreadableSkill,
    check_fields,
    fold,
    parse_front_matter,
)

__all__ = ["MOST_BYTES", "MOST_FILES", "MOST_PACKED", "Proposal", "problems_of", "read_proposals"]

MOST_BYTES = 256 * 1024
"""Bytes of one proposal. A person must be able to read it."""
MOST_FILES = 50
_MOST_PROPOSALS = 20
MOST_PACKED = 40_000_000
"""Bytes of all proposals as JSON, in which one byte may take six."""
_MOST_PROBLEMS = 5
_LONGEST_NAME = 255
"""Bytes of a file name, the limit of Linux."""


class _Packed(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    name: str
    files: dict[str, str]
    unread: list[str]


_PACKED = TypeAdapter(list[_Packed], config=ConfigDict(defer_build=True))


@dataclass(frozen=True)
class Proposal:
    """A proposed or stored skill."""

    name: str
    """The name of the folder."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Relative path -> text."""
    unread: tuple[str, ...] = ()
    """Files that cannot be read as text, with the reason."""

    @property
    def digest(self) -> str:
        """Digest of the whole content."""
        whole = json.dumps([self.name, sorted(self.files.items()), self.unread])
        return hashlib.sha256(whole.encode()).hexdigest()


def read_proposals(packed: bytes) -> list[Proposal]:
    """Return the proposals in a sandbox's JSON: `[{"name", "files": {path: text}, "unread": [reason]}]`.

    Raises:
        ValueError: the JSON has another shape, or more than `MOST_PACKED` bytes.
    """
    if len(packed) > MOST_PACKED:
        raise ValueError(f"the proposals come to {len(packed):,} bytes, and at most {MOST_PACKED:,} are read")
    read = _PACKED.validate_json(packed)[:_MOST_PROPOSALS]
    return [Proposal(each.name, each.files, tuple(each.unread)) for each in read]


def problems_of(proposal: Proposal, *, place: str, libraries: Collection[str] = ()) -> list[str]:
    """Return why a proposal cannot become a skill, one line for each problem with its fix.

    Args:
        proposal: the proposal.
        place: the folder of stored skills in the sandbox.
        libraries: names of skills that programs import. A proposal cannot replace them.
    """
    return [fold(each)[:500] for each in islice(_problems(proposal, place, libraries), _MOST_PROBLEMS)]


def _problems(proposal: Proposal, place: str, libraries: Collection[str]) -> Iterator[str]:
    if len(proposal.name) > MAX_NAME_CHARS or fold(proposal.name) != proposal.name or "/" in proposal.name:
        yield "the folder's name is not a valid skill name: choose lower-case letters, digits and hyphens."
        return
    yield from (f"{each}: take it out, or write it as text." for each in proposal.unread)
    if len(proposal.files) > MOST_FILES:
        yield f"it has {len(proposal.files)} files, at most {MOST_FILES} are read."
    if (size := sum(len(text.encode()) for text in proposal.files.values())) > MOST_BYTES:
        yield f"it has {size:,} bytes, at most {MOST_BYTES:,} are read."
    if proposal.name in libraries:
        yield "programs import the skill of this name, and would go on with that one: choose another."
    if SKILL_FILE not in proposal.files:
        yield f"it has no {SKILL_FILE}."
    else:
        yield from _broken_rules(proposal.files[SKILL_FILE], proposal.name)
    for path, text in sorted(proposal.files.items()):
        yield from (f"{path} {each}" for each in _wrong_with(path, text, proposal, place))


def _broken_rules(text: str, name: str) -> Iterator[str]:
    """Yield every breach of the Agent Skills rules."""
    try:
        findings = list(check_fields(parse_front_matter(text.encode()), folder=name))
    except UnreadableSkill as error:
        findings = [error.finding]
    yield from (f"{each.message}. {each.fix}" for each in findings)


def _wrong_with(path: str, text: str, proposal: Proposal, place: str) -> Iterator[str]:
    parts = PurePosixPath(path).parts
    if not parts or path != "/".join(parts) or ".." in parts or fold(path) != path:
        yield "has a name that cannot be shown, or leads out of its folder: rename it."
    if any(len(part.encode()) > _LONGEST_NAME for part in parts):
        yield "has too long a name: shorten it."
    if any(parent.as_posix() in proposal.files for parent in PurePosixPath(path).parents):
        yield "lies in what is a file as well: rename one of the two."
    if any(unicodedata.category(char) == "Cc" and char not in "\t\n\r" for char in text):
        yield "holds control characters: take them out."
    if f"/workspace/skills/{proposal.name}" in text:
        yield f"names /workspace/skills: once approved it is at {place}/{proposal.name}."
    if path.endswith(".py") and (why := _no_python(text)):
        yield f"is not Python: {why}."


def _no_python(text: str) -> str | None:
    try:
        parse_python(text)
    except ValueError as error:
        return str(error)
    return None
