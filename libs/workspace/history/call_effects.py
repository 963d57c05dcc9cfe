"""What a call has done to a workspace, and what was undone of that."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Final, Self

from libs.sandbox import RunResult, in_one_line
from libs.workspace import Difference, Entry

__all__ = ["AskFirst", "Effect", "IsFree", "Undone", "named"]

_MOST_NAMED: Final = 5
"""Paths that a reason names."""

IsFree = Callable[[str, Entry | None, Entry | None], bool]
"""Takes a changed path, what it held and what it holds. Returns whether nobody has to be asked about that."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a call has done."""

    result: RunResult
    difference: Difference
    """What was created, changed and deleted while it ran."""
    unread: dict[str, str]
    """Paths that the capture after the call does not hold, and the one before did, each with the reason."""
    free: bool
    """Whether nobody has to be asked."""
    refused: list[str]
    """Hosts that the gateway allows and that the call did not reach, because it ran without network."""
    before: str
    after: str
    """The captures."""
    numbers: tuple[int, int]
    """The captures in the ledger."""

    def text(self) -> str:
        """Return the effect for the command log."""
        value: dict[str, Any] = asdict(self)
        return json.dumps(value | {"difference": self.difference.parts})

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the effect of a `text`."""
        value = json.loads(text)
        value["difference"] = _difference(value["difference"])
        value["result"] = RunResult(**value["result"])
        value["numbers"] = tuple(value["numbers"])
        return cls(**value)


@dataclass(frozen=True, slots=True)
class AskFirst:
    """The call was not run, or it was undone: a person must approve it before it runs."""

    why: str


@dataclass(frozen=True, slots=True)
class Undone:
    """What was taken back of the effect of a call."""

    difference: Difference
    """What the call had created, changed and deleted."""
    kept: dict[str, str]
    """Paths that stay as the call left them, or as they are now, each with the reason."""

    def text(self) -> str:
        """Return this for the command log."""
        return json.dumps({"difference": self.difference.parts, "kept": self.kept})

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what has this `text`."""
        value = json.loads(text)
        return cls(_difference(value["difference"]), value["kept"])


def named(paths: Mapping[str, str]) -> str:
    """Return some paths with their reasons, for a sentence."""
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    shown = [f"{in_one_line(path)} ({why})" for path, why in islice(paths.items(), _MOST_NAMED)]
    return ", ".join(shown) + more


def _difference(parts: Any) -> Difference:
    return Difference(*map(tuple, parts))
