"""Tells a thread at its next call that another sandbox or interpreter runs it, and what is gone."""

from __future__ import annotations

import threading
import weakref
from asyncio import CancelledError
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from weakref import WeakKeyDictionary

from libs.sandbox.errors import CommandInterrupted, SandboxError
from libs.sandbox.host.requests import Call
from libs.sandbox.host.thread_work import OUTSIDE
from libs.sandbox.protocol import RunResult
from libs.sandbox.wire.frames import Fd
from libs.sandbox.wire.messages import FRESH
from libs.sandbox.workspace import Folders

__all__ = ["NewSandboxNotes", "Sessions", "ThreadNotes", "notes_of"]

_MOST_THREADS = 100_000
"""Number of threads that are remembered."""
_MOST_WORKSPACES = 20_000
"""Workspace folders whose notes are remembered: of 10,000 threads, each with the folder of a spare."""
_MOST_SESSIONS = 100_000
"""Number of sessions that are remembered, to report what a new interpreter has lost."""
_LONGEST_NAME = 200
"""Characters of a session's name that is remembered. A name may have 64 kB."""

_NEW = "[a new sandbox runs this: files outside of the workspace and programs in the background are gone]\n"
_OTHER = (
    "[another sandbox than before runs this: files outside of the workspace and programs in the background "
    "of the other one are not here]\n"
)
_OTHER_BELOW = (
    "[on the host, a file system was mounted below the workspace or a mounted folder, or was unmounted: "
    "files there may differ]\n"
)
_OTHER_MOUNT = "[{}: another folder than before on the host, so its files may differ]\n"
_FILLED = (
    "[a new sandbox runs this: the workspace is as after the latest step whose files were kept; files "
    "outside of it and programs in the background are gone]\n"
)
_OTHER_FOLDER = (
    "[a new sandbox runs this: the workspace folder was replaced by another one, so its files may differ; "
    "files outside of it and programs in the background are gone]\n"
)


class NewSandboxNotes:
    """Knows in which sandbox each thread has made its latest call. Used on the sandboxes' event loop only.

    Sandboxes are numbered in the order of their starts in this program. `owner` is the sandbox object that
    has started a sandbox. Of its sandboxes, the latest runs.
    """

    def __init__(self) -> None:
        self._latest: OrderedDict[str, tuple[weakref.ref[object], int]] = OrderedDict()
        """Thread -> owner and number of the sandbox of its latest call."""
        self._outside: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        """Owner -> number of the sandbox of the latest call outside of threads."""
        self._workspace: tuple[int, int] | None = None
        """The latest known workspace folder, as `folder_at` returns it."""
        self._other_folder = 0
        """Number of the latest sandbox whose workspace is another folder than that of the one before."""
        self._below: dict[tuple[str, ...], frozenset[bytes]] = {}
        """Paths inside of the folders that are mounted to read -> the latest known file systems below these
        folders and the workspace."""
        self._other_below = 0
        """Number of the latest sandbox whose file systems below are others than those of the one before."""
        self._mounts: dict[str, tuple[tuple[int, int], int]] = {}
        """Path inside of a folder that is mounted to read -> the latest known folder there, and the number of
        the first sandbox that has it in the place of another one; 0: no other one is known."""

    def started(self, sandbox: int, folders: Folders | None, mounted: Sequence[str], *, made: bool) -> None:
        """Note the start of a sandbox. May be called in any thread, before the sandbox's first call.

        Args:
            folders: its folders on the host. None: not known, or none is used.
            mounted: the paths inside of all but the workspace.
            made: whether the start has made the workspace, which may have the inode of a removed one.
        """
        workspace, *others = folders.places if folders else (None,)
        if folders:
            if self._below.get(tuple(mounted), folders.mounts) != folders.mounts:
                self._other_below = sandbox
            self._below[tuple(mounted)] = folders.mounts
        if self._workspace is not None and (made or workspace not in (None, self._workspace)):
            self._other_folder = sandbox
        self._workspace = workspace or self._workspace
        for path, folder in zip(mounted, others, strict=False):
            known = self._mounts.get(path)
            if folder and (known is None or known[0] != folder):
                self._mounts[path] = folder, sandbox if known else 0

    def knows(self, thread: str, owner: object) -> bool:
        """Return whether a call of the thread is known."""
        return owner in self._outside if thread == OUTSIDE else thread in self._latest

    def called(self, thread: str, sandbox: int, owner: object) -> None:
        """Remember the sandbox of a call. Calls may end in another order than they began."""
        last_owner, latest = self._last_call(thread, owner) or (None, 0)
        if last_owner is owner:
            sandbox = max(latest, sandbox)
        if thread == OUTSIDE:
            self._outside[owner] = sandbox
            return
        self._latest[thread] = weakref.ref(owner), sandbox
        self._latest.move_to_end(thread)
        if len(self._latest) > _MOST_THREADS:
            self._latest.popitem(last=False)

    def _last_call(self, thread: str, owner: object) -> tuple[object, int] | None:
        """Return owner and number of the sandbox of a thread's latest call. The owner may be gone: None.

        Callers outside of threads are known to each sandbox object apart.
        """
        if thread == OUTSIDE:
            return (owner, self._outside[owner]) if owner in self._outside else None
        last_owner, sandbox = self._latest.get(thread, (None, 0))
        return (last_owner(), sandbox) if last_owner else None

    def note(self, thread: str, sandbox: int, owner: object, *, filled: bool, earlier: bool) -> str:
        """Return the note for a call. Empty if the thread's latest call was in the same sandbox.

        Args:
            sandbox: number of the sandbox that runs the call.
            filled: whether each new sandbox starts empty, and is filled from what was kept.
            earlier: whether an earlier program has made the thread's latest call.
        """
        last_owner, latest = self._last_call(thread, owner) or (owner, sandbox)
        if not earlier and latest >= sandbox and (last_owner is owner or latest == sandbox):
            return ""
        if filled:
            note = _FILLED
        elif not earlier and latest > sandbox:
            note = _OTHER
        else:
            note = _OTHER_FOLDER if latest < self._other_folder else _NEW
        other = [path for path, (_, since) in list(self._mounts.items()) if latest < since <= sandbox]
        if other:
            note += _OTHER_MOUNT.format(" and ".join(other))
        return note + (_OTHER_BELOW if latest < self._other_below <= sandbox else "")


_of_workspaces: OrderedDict[Path, NewSandboxNotes] = OrderedDict()
_lock = threading.Lock()


def notes_of(workspace: Path) -> NewSandboxNotes:
    """Return the notes about a workspace folder, which all sandboxes of this program with it share."""
    with _lock:
        notes = _of_workspaces.setdefault(workspace, NewSandboxNotes())
        _of_workspaces.move_to_end(workspace)
        if len(_of_workspaces) > _MOST_WORKSPACES:
            _of_workspaces.popitem(last=False)
    return notes


@dataclass(slots=True)
class _Session:
    thread: str
    name: str | None
    """None if it is long."""
    untold: bool
    """Whether nobody has read the note about a new interpreter: the block with it was cancelled."""


class Sessions:
    """Knows the sessions in which blocks have begun. Used on the sandboxes' event loop only."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[int, _Session] = OrderedDict()
        """Hash of the name -> session."""

    def block(self, session: str, thread: str) -> SessionBlock:
        """Return the notes of one block."""
        return SessionBlock(self, session, thread)

    def find(self, session: str) -> _Session | None:
        """Return a session in which blocks have begun."""
        return self._sessions.get(hash(session))

    def begins(self, session: str, thread: str) -> _Session | None:
        """Note that a block begins. Return the session, or None if it was known."""
        known = self.find(session)
        name = session if len(session) <= _LONGEST_NAME else None
        noted = _Session(thread, name, untold=known is not None and known.untold)
        self._sessions[hash(session)] = noted
        self._sessions.move_to_end(hash(session))
        if len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return None if known else noted

    def forget(self, session: str, noted: _Session | None) -> None:
        """Forget a session in which no block has begun, unless another block came after `begins`."""
        if noted and self.find(session) is noted:
            del self._sessions[hash(session)]

    def of_thread(self, thread: str) -> list[str]:
        """Return the names of the sessions of a thread, without long names."""
        known = [session.name for session in self._sessions.values() if session.thread == thread]
        return [name for name in known if name is not None]


class SessionBlock:
    """One block: hold this during its call. Notes its session, so that the next block prints a note.

    That note is printed if the next block runs in a new interpreter, or if nobody has read the note before.
    """

    def __init__(self, sessions: Sessions, session: str, thread: str) -> None:
        self._sessions, self._session, self._thread = sessions, session, thread
        self.calls: list[Call] = []
        """The requests that were sent."""
        self._noted: _Session | None = None

    @property
    def continues(self) -> bool:
        """Whether blocks of the session have begun."""
        return self._sessions.find(self._session) is not None

    def sent(self, call: Call) -> None:
        """Note that a request of the block was sent."""
        self.calls.append(call)
        self._noted = self._sessions.begins(self._session, self._thread) or self._noted

    def begun(self) -> bool:
        """Return whether the block may have begun."""
        return any(call.begun for call in self.calls)

    def with_note(self, call: Call, result: RunResult) -> RunResult:
        """Return a result, with the note that nobody has read before it."""
        known = self._sessions.find(self._session)
        if not (known and known.untold) or call.data[Fd.OUT].startswith(FRESH):
            return result
        return replace(result, output=FRESH.decode() + result.output)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, CommandInterrupted) or not (error or self.calls):  # run before: recorded
            self._sessions.begins(self._session, self._thread)
        elif isinstance(error, SandboxError | CancelledError) and not self.begun():
            self._sessions.forget(self._session, self._noted)
        elif known := self._sessions.find(self._session):
            if not error:
                known.untold = False
            elif self.calls and self.calls[-1].data[Fd.OUT].startswith(FRESH):
                # The worker repeats the note only if the cancellation came before a time-out and the end.
                known.untold = True


@dataclass(frozen=True, slots=True)
class ThreadNotes:
    """What threads have run in a sandbox. Another sandbox object for the threads goes on with these notes."""

    sandboxes: NewSandboxNotes = field(default_factory=NewSandboxNotes)
    sessions: Sessions = field(default_factory=Sessions)
