"""The files and values of a one-tool thread, as a workspace that can be captured and brought back."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from libs.exec_tool.execute_code_call import VALUES
from libs.persistence import FileContent, mode_of
from libs.persistence.thread_store import ThreadStore
from libs.sandbox import FileFailed
from libs.sandbox.host import CommandRecords, Turns, core

__all__ = ["ThreadTree", "ThreadTrees"]

_MOST_IDLE: Final = 100
"""Threads whose latest capture is remembered, so that the next one stores only what differs."""
_LARGE: Final = "larger than SNAPSHOT_FILE_MAX"

Feed = Callable[[], AsyncIterator[bytes]]


class ThreadTree:
    """Implements `libs.workspace.history.Workplace` on the store of threads.

    A value is shown as the file `.kv/<name>`, with the name in percent-encoding. Programs run one at a time,
    inside `turns.command`, and nothing of them is left running.
    """

    running: Final = True
    root: Final = Path()

    def __init__(self, thread: str, store: ThreadStore, records: CommandRecords | None) -> None:
        self.turns = Turns()
        self.records = records
        self.refused: set[str] | None = None
        """See `without_network`. None: programs reach what the gateway allows."""
        self._thread = thread
        self._store = store

    async def atree(
        self,
        do: str,
        *,
        content: bytes = b"",
        feed: Feed | None = None,
        size: int = 0,  # noqa: ARG002 - the steps say how much `feed` yields
        **arguments: Any,
    ) -> tuple[dict[str, Any], bytes, bytes]:
        """See `libs.sandbox.Tree.atree`."""
        match do:
            case "walk":
                return await self._walk(json.loads(content or b"[]"), arguments["most"])
            case "parts":
                return await self._parts(arguments["parts"])
            case "apply":
                return await self._apply(arguments["steps"], feed)
        raise FileFailed("failed", f"a thread's store has no operation {do!r}")

    @property
    def idle(self) -> bool:
        """Whether nothing of the thread runs or is due."""
        return self.turns.idle and self.refused is None

    @contextmanager
    def without_network(self) -> Iterator[set[str]]:
        """Refuse all network to programs of the thread: see `ChannelSandbox.without_network`."""
        self.refused = refused = set[str]()
        try:
            yield refused
        finally:
            self.refused = None

    async def aend_programs(self, thread: str) -> None:
        """Do nothing: no program outlives its call."""

    def has_background(self, thread: str) -> bool:  # noqa: ARG002
        """Return False: no program outlives its call."""
        return False

    async def _contents(self) -> dict[str, bytes]:
        files = await self._store.files(self._thread)
        values = await self._store.values(self._thread)
        return {**files, **{_path(name): value.encode() for name, value in values.items()}}

    async def _walk(self, known: Sequence[str], most: int) -> tuple[dict[str, Any], bytes, bytes]:
        found = await self._contents()
        large = {path for path, content in found.items() if len(content) > most}
        rows = [
            [path, "file", mode_of(content), 0, len(content), None if path in large else _digest(content)]
            for path, content in found.items()
        ]
        told = {
            "rows": rows,
            "deleted": [path for path in known if path not in found],
            "skipped": dict.fromkeys(large, _LARGE),
            "times": {},
        }
        return {}, json.dumps(told).encode(), json.dumps(list(found)).encode()

    async def _parts(self, parts: Sequence[tuple[str, int, int]]) -> tuple[dict[str, Any], bytes, bytes]:
        wanted = [part for part in parts if not _is_value(part[0])]
        pieces = dict(zip(wanted, await self._store.parts(self._thread, wanted), strict=True))
        for path, offset, length in parts:
            if _is_value(path):
                value = (await self._store.get(self._thread, _name(path)) or "").encode()
                pieces[path, offset, length] = value[offset : offset + length]
        contents = [pieces[part] for part in parts]
        return {"sizes": list(map(len, contents))}, b"".join(contents), b""

    async def _apply(
        self, steps: Sequence[dict[str, Any]], feed: Feed | None
    ) -> tuple[dict[str, Any], bytes, bytes]:
        """Take steps in one transaction: see `guest/files/tree_apply.py`."""
        given = b"".join([piece async for piece in feed()]) if feed else b""
        found = await self._contents()
        left: dict[str, str] = {}
        changed: dict[str, bytes | None] = {}
        at = 0
        for step in steps:
            path, end = step["path"], at + step.get("size", 0)
            content, at = given[at:end], end
            if not _holds(changed.get(path, found.get(path)), step["old"]):
                left[path] = "it has changed meanwhile"
            elif step["do"] == "remove":
                changed[path] = None
            elif step["do"] == "file":
                changed[path] = FileContent(content, step["mode"])
            elif step["do"] == "mode":
                changed[path] = FileContent(found[path], step["mode"])
        await self._store.bring(
            self._thread,
            {path: content for path, content in changed.items() if not _is_value(path)},
            {
                _name(path): None if content is None else content.decode()
                for path, content in changed.items()
                if _is_value(path)
            },
        )
        return {"left": left}, b"", b""


class ThreadTrees:
    """The trees of all threads.

    Args:
        store: holds files and values.
        records: the log of the programs.
    """

    def __init__(self, store: ThreadStore, records: CommandRecords | None = None) -> None:
        self._store = store
        self._records = records
        self._trees: OrderedDict[str, ThreadTree] = OrderedDict()

    def of(self, thread: str) -> ThreadTree:
        """Return the tree of a thread. Call this on the core."""
        if thread not in self._trees:
            self._trees[thread] = ThreadTree(thread, self._store, self._records)
            idle = [each for each, tree in self._trees.items() if tree.idle and each != thread]
            for each in idle[: max(len(idle) - _MOST_IDLE, 0)]:
                del self._trees[each]
        self._trees.move_to_end(thread)
        return self._trees[thread]

    @asynccontextmanager
    async def program(self, thread: str) -> AsyncIterator[set[str] | None]:
        """Hold this while a program of a thread runs and its files are saved. "": no thread.

        Gives a set if the program runs without network: see `ThreadTree.without_network`.
        """
        held = AsyncExitStack()
        try:
            yield await core().run(self._begin(thread, held)) if thread else None
        finally:
            await core().run(held.aclose())

    async def _begin(self, thread: str, held: AsyncExitStack) -> set[str] | None:
        tree = self.of(thread)
        await held.enter_async_context(tree.turns.command(thread))
        return tree.refused


def _path(name: str) -> str:
    escaped = quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")
    return f"{VALUES}/{escaped}"


def _is_value(path: str) -> bool:
    return path.startswith(f"{VALUES}/")


def _name(path: str) -> str:
    return unquote(path.removeprefix(f"{VALUES}/"))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _holds(content: bytes | None, old: list[Any] | None) -> bool:
    """Return whether a path holds what a step expects."""
    if content is None or old is None:
        return content is None and old is None
    kind, size, value = old
    return bool(size == len(content) and (kind == "unkept" or value == _digest(content)))
