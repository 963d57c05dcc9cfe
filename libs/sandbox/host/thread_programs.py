"""Knows what each thread has left running in a sandbox: background programs, and live interpreters."""

from __future__ import annotations

from collections import OrderedDict, defaultdict

from libs.sandbox.host.channel import Channel

__all__ = ["ThreadPrograms"]

_MOST_SESSIONS = 100_000
"""Number of sessions that are remembered, to report lost variables to the next block."""
_LONGEST_NAME = 200
"""Characters of a session's name that is remembered. A name may have 64 kB."""
_MOST_LEFT = 1_000
"""Commands of a thread that are remembered because they left something running."""


class ThreadPrograms:
    """Belongs to one sandbox. Used on the sandboxes' event loop only."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[int, tuple[str, str]] = OrderedDict()
        """Hash of each session in which a block has begun -> its thread, and its name if that is short."""
        self._left: defaultdict[str, list[tuple[Channel, int]]] = defaultdict(list)
        """Thread -> its commands that left something running."""

    def knows(self, session: str) -> bool:
        """Return whether blocks of a session have begun."""
        return hash(session) in self._sessions

    def block_begins(self, session: str, thread: str) -> None:
        """Note a session, so that its next block prints a note if the block runs in a new interpreter."""
        name = session if len(session) <= _LONGEST_NAME else ""
        self._sessions[hash(session)] = thread, name
        self._sessions.move_to_end(hash(session))
        if len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)

    def sessions_of(self, thread: str) -> list[str]:
        """Return the sessions of a thread."""
        return [name for owner, name in self._sessions.values() if owner == thread and name]

    def forget(self, session: str) -> None:
        """Forget a session in which no block has begun."""
        self._sessions.pop(hash(session), None)

    def left_running(self, thread: str, channel: Channel, stream: int) -> None:
        """Note that a command has left something running."""
        self._left[thread].append((channel, stream))
        del self._left[thread][:-_MOST_LEFT]

    def end_background(self, thread: str) -> bool:
        """End what the commands of a thread have left running. Return whether there was anything."""
        left = [(channel, stream) for channel, stream in self._left.pop(thread, []) if not channel.closed]
        for channel, stream in left:
            channel.end_left(stream)
        return bool(left)
