"""Lets workspaces travel: a new sandbox of a thread starts empty, and is filled with the latest capture."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

from libs.persistence import CheckpointerUnavailable
from libs.sandbox import FileFailed, RecordUnavailable, SandboxError, in_one_line
from libs.sandbox.host import ChannelSandbox, ChannelTree, on_core
from libs.workspace import SnapshotsUnavailable, WorkspaceStore
from libs.workspace.ledger import ClaimLost, Ledger, thread_workspace

__all__ = ["FilesNotKept", "Travels", "Unkept"]

_ENDED: Final = "the sandbox ended before its files were kept"
_PROGRAM_ENDED: Final = "the program that ran it ended before its files were kept"


class FilesNotKept(SandboxError):
    """The files of a thread could not be brought into a new sandbox, or not be kept outside of it."""

    @classmethod
    def because(cls, what: str, error: Exception) -> FilesNotKept:
        """Return the error for a failure of the store or of the sandbox."""
        return cls(f"{what}: {error}", hint=getattr(error, "hint", "") or "Repeat the call.")


@dataclass(slots=True)
class Unkept:
    """What the latest steps of a thread could not keep."""

    lost: str = ""
    """Why files are lost. Empty: none are."""
    failed: str = ""
    """Why the latest capture failed, although the sandbox goes on. Empty: it did not."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Paths that captures leave out, each with the reason."""


class Travels:
    """Claims the thread for each of its sandboxes, and fills them. Used on the core only.

    Until its files are captured, a sandbox alone has them: what ends with the sandbox is remembered until
    `unkept` is asked for.

    Args:
        sandbox_of: returns the sandbox of a thread. Each of its starts begins with an empty workspace.
    """

    def __init__(
        self, store: WorkspaceStore, ledger: Ledger, sandbox_of: Callable[[str], ChannelSandbox]
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._sandbox_of = sandbox_of
        self._generations: WeakKeyDictionary[ChannelTree, int] = WeakKeyDictionary()
        """Running sandbox -> generation of its claim."""
        self._unkept: dict[str, Unkept] = {}
        self._known: set[str] = set()
        """Threads for which earlier programs have kept what they could."""

    def begins(self, thread: str) -> None:
        """Note that a person's turn begins: the model was told of an earlier program that was killed."""
        self._known.add(thread)

    async def fill(self, thread: str, tree: ChannelTree) -> None:
        """Claim a thread for a new sandbox, and bring the thread's latest capture into the sandbox.

        Raises:
            SandboxError: the sandbox must not be used.
        """
        self.note_lost(thread)
        try:
            # First: from now on, no earlier sandbox can add a capture.
            self._generations[tree] = await self._ledger.claims.claim(thread)
            if latest := await self._ledger.latest(thread_workspace(thread)):
                await self._restore(tree, latest.manifest)
        except (SnapshotsUnavailable, CheckpointerUnavailable, FileFailed) as error:
            what = "The files of this thread could not be brought into a new sandbox"
            raise FilesNotKept.because(what, error) from error

    async def _restore(self, tree: ChannelTree, capture: str) -> None:
        restored = await self._store.arestore(tree, capture)
        kept = await self._store.amanifest(capture)
        missing = {path: why for path, why in restored.kept.items() if kept.reason(path) is None}
        for path, why in missing.items():
            raise FileFailed(
                "failed", f"{in_one_line(path)} and {len(missing) - 1} more were not restored: {why}"
            )

    async def held(self, thread: str) -> tuple[ChannelTree, int]:
        """Return the workspace of a thread's sandbox, and the generation of its claim. Starts the sandbox."""
        await self._sandbox_of(thread).astart()
        tree = self._sandbox_of(thread).tree
        if tree is None:
            raise FilesNotKept("The sandbox ended right after its start.", hint="Repeat the call.")
        return tree, self._generations[tree]

    @on_core
    async def check(self, thread: str) -> None:
        """Start the sandbox of a thread, or end it if its claim is lost.

        Raises:
            ClaimLost: the claim is lost.
            RecordUnavailable: the database cannot be used.
            SandboxError: the sandbox cannot be started.
        """
        tree, generation = await self.held(thread)
        try:
            holds = await self._ledger.claims.holds(thread, generation)
        except CheckpointerUnavailable as error:
            raise RecordUnavailable(str(error), hint=error.hint) from error
        if not holds:
            await self.end(thread, tree)
            raise ClaimLost

    async def end(self, thread: str, tree: ChannelTree) -> None:
        """End a sandbox whose claim is lost."""
        await tree.aend()
        self.note_lost(thread)

    def note_lost(self, thread: str) -> bool:
        """Note what ended with the thread's sandbox, if none runs. Return whether steps are lost."""
        sandbox = self._sandbox_of(thread)
        if sandbox.running:
            return False
        # A command that still runs waits for this sandbox, or gets the error of its own.
        spans = [each for each in sandbox.turns.spans if each.thread == thread and each.ended is not None]
        if spans:
            sandbox.turns.forget_spans(spans, time.time_ns())
            self._of(thread).lost = _ENDED
        return bool(spans)

    async def refuse_lost(self, thread: str) -> None:
        """Raise FilesNotKept if steps of the thread ended with their sandbox, or with an earlier program."""
        if self.note_lost(thread) or await self._note_lost_before(thread):
            raise FilesNotKept(f"The step is lost: {self._of(thread).lost}.", hint="Look at what is there.")

    async def _note_lost_before(self, thread: str) -> bool:
        """Note a step that an earlier program was killed in, after its commands and before its capture.

        Its commands do not run again: their recorded results are returned. Return whether there is one.
        """
        records = self._sandbox_of(thread).records
        if thread in self._known or records is None:
            return False
        since = await self._ledger.captured_until(thread)
        earlier = await records.of_other_programs(since)
        self._known.add(thread)
        found = any(who == thread and ended and ended > since for who, _, ended in earlier)
        if found:
            self._of(thread).lost = _PROGRAM_ENDED
        return found

    def failed(self, thread: str, why: str) -> None:
        """Note that a capture failed."""
        if not self.note_lost(thread):
            self._of(thread).failed = why

    def kept(self, thread: str, skipped: Mapping[str, str]) -> None:
        """Note that a capture was kept. `skipped`: paths that it leaves out, and that nobody was told of."""
        if skipped or thread in self._unkept:
            self._of(thread).failed = ""
            self._of(thread).skipped |= skipped

    @on_core
    async def unkept(self, thread: str) -> Unkept | None:
        """Return what the steps of a thread could not keep since this was last asked for. None: nothing."""
        found = self._unkept.pop(thread, Unkept())
        return found if found.lost or found.failed or found.skipped else None

    def _of(self, thread: str) -> Unkept:
        return self._unkept.setdefault(thread, Unkept())
