"""The types that the loop and its callers share: block calls, refusals, live output, result files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NotRequired

from typing_extensions import TypedDict

from libs.code_blocks.block_reader import Language
from libs.sandbox import OnOutput

__all__ = ["BlockCall", "Files", "Live", "Refused"]


class BlockCall(TypedDict):
    """A block of a reply, with the decision of a person."""

    language: Language
    code: str
    key: str
    refused: NotRequired[str]
    """The reason of the person who refused the block."""
    granted: NotRequired[str]
    """What covers the block: an earlier approval, `command` (this exact block) or `tool`, or a `rule`."""
    undone: NotRequired[str]
    """Text about a block that ran, and whose effect a person has rejected."""
    ran: NotRequired[bool]
    """Whether the block has run already, in the gate. It does not run again."""
    skipped: NotRequired[bool]
    """Whether the block does not run, because an earlier one failed or was undone."""
    denied: NotRequired[str]
    """Why a rule denies the block."""
    decision: NotRequired[dict[str, Any]]
    """Who or what decided on the block: a `decision_record`."""
    changed: NotRequired[bool]
    """Whether a person has edited the block."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A block that a person refused, or that a rule denies. The model gets the reason."""

    reason: str
    by_rule: bool = False
    undone: bool = False
    """Whether the block ran, and its effect was undone."""


Live = Callable[[str], AbstractContextManager[OnOutput | None]]
"""Takes the key of a block; the context gives the callback for its output."""


@dataclass(frozen=True, slots=True)
class Files:
    """Finds the result files of a run."""

    absent: Callable[[str], Awaitable[Sequence[str]]]
    """Takes a text; returns the result files that the text names and that do not exist."""
    made: Callable[[], Awaitable[Sequence[str]]]
    """Returns the result files that exist."""
