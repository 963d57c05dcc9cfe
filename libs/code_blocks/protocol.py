"""What the loop works with, and is handed: code, results, and who runs, approves and counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from typing_extensions import TypedDict

from libs.code_blocks.reader import Block
from libs.sandbox.protocol import OnOutput

__all__ = [
    "BlockCall",
    "BlockResult",
    "BlockRunner",
    "Earlier",
    "Execution",
    "Files",
    "Gate",
    "Live",
    "Meter",
    "Refused",
]


class Execution(TypedDict):
    """One block that was run, as the result of a run lists it."""

    language: str
    code: str
    output: str
    exit_code: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BlockResult:
    """How a block ended."""

    output: str
    """Standard output and standard error in their order."""
    exit_code: int
    """0 where it succeeded; 124 after a time-out, 125 where the sandbox failed and `output` says why."""
    seconds: float


class BlockRunner(Protocol):
    """Runs blocks. What one keeps for the next belongs to its thread."""

    async def run(
        self, language: str, code: str, *, thread_id: str, key: str, on_output: OnOutput | None = None
    ) -> BlockResult:
        """Run one block to its end. Never raises for what the code does, nor for a sandbox that fails.

        Cancelling the awaiting task ends what the block has started.

        Args:
            language: `python` or `bash`.
            code: as the model wrote it, or a person changed it.
            thread_id: whose variables and working directory it sees.
            key: tells this block from every other one, also when a broken-off run is taken up again: what
                had ended is not run twice, its result comes back.
            on_output: is given the output as it comes, in a thread of the sandbox.
        """
        ...

    async def begun(self, keys: Sequence[str]) -> set[str]:
        """Which of these blocks have begun already, before the run was broken off."""
        ...


@dataclass(frozen=True, slots=True)
class BlockCall:
    """A block that waits for approval."""

    block: Block
    key: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A person does not want a block to run; the model reads the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Earlier:
    """A block runs as it is, without a question: it was approved earlier in the thread."""

    scope: str
    """`command`: this very block; `tool`: every block."""


class Gate(Protocol):
    """A person's approval."""

    def require(self) -> None:
        """Refuse a run in which nobody could be asked, by raising. Called inside a node."""
        ...

    def ask(
        self, calls: Sequence[BlockCall], *, grants: Mapping[str, Any], at_reply: Mapping[str, Any]
    ) -> Sequence[Block | Earlier | Refused]:
        """Put the blocks of a reply before a person, as one question.

        Args:
            calls: the blocks.
            grants: what was approved for the rest of the thread, as the state keeps it.
            at_reply: the same, when the reply was made.

        Returns:
            For each in order what is to run (the block, or what the person made of it), why it needs no
            answer, or the refusal.

        Raises:
            GraphInterrupt: there is no answer yet.
        """
        ...


class _Limits(Protocol):
    def explain(self, status: Any, /) -> str: ...


class Meter(Protocol):
    """Counts what a run uses; `libs.middleware.budget.Meter` is one."""

    @property
    def budget(self) -> _Limits: ...
    def take_call(self) -> str | None:
        """Count a model call about to be made, or return the status that forbids it."""
        ...

    def add_tokens(self, tokens: int) -> None: ...
    def working(self) -> AbstractContextManager[None]:
        """Let the clock run."""
        ...

    def reached(self) -> str | None:
        """The status of the first limit that is used up."""
        ...

    def remaining(self) -> float:
        """Seconds of work that are left."""
        ...

    def spent(self) -> Mapping[str, Any]:
        """What has been used, as the state keeps it."""
        ...


Live = Callable[[str], AbstractContextManager[OnOutput | None]]
"""Makes, for the key of a block, what is given its output while it runs."""


async def _none(*_: str) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Files:
    """What a run hands over."""

    absent: Callable[[str], Awaitable[Sequence[str]]] = _none
    """Which of the files that a text names are to be there, and are not."""
    made: Callable[[], Awaitable[Sequence[str]]] = _none
    """Which are there."""
