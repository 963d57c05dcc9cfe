"""Writes the threads and runs of LangGraph's server to the database, and restores them after a restart.

The server keeps them in memory and saves them to `.langgraph_api/` only every ten seconds. The journal
compares these lists with what it wrote last, so it finds every change, whichever route or worker made it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from agent.server.langgraph_server import OWN_ENTRIES, Lists
from libs.persistence.served_saver import Key, ServedSaver
from libs.redaction import Redact

__all__ = ["Journal"]

logger = logging.getLogger(__name__)

_KINDS: Mapping[str, tuple[str, ...]] = {
    "threads": ("thread_id",),
    "runs": ("run_id",),
    "assistants": ("assistant_id",),
    "assistant_versions": ("assistant_id", "version"),
    "crons": ("cron_id",),
}
"""Kind of row -> the fields of its key."""

_TOLD_BY = ("status", "updated_at", "version", "next_run_date")
"""Fields that show whether a row has changed: every change of a row sets one of them."""

_REBUILT = {"threads": {"values", "interrupts"}}
"""Kind of row -> fields that are not written, because the checkpoints hold them."""

_OPEN = ("pending", "running")
_ATTEMPTS = "attempts"


class Journal:
    """The server's lists, as rows of the database.

    Args:
        saver: gives access to the database.
        store: the server's lists.
        attempts: run -> how often the server has started it.
        known: redacts secrets in what is written.
    """

    def __init__(
        self, saver: ServedSaver, store: Lists, attempts: dict[UUID, int], known: Redact | None = None
    ) -> None:
        self._saver = saver
        self._store = store
        self._attempts = attempts
        self._known = known
        self._written: dict[Key, tuple[Any, ...]] = {}
        self._lock = asyncio.Lock()
        self._asked = self._done = 0

    async def write(self) -> None:
        """Write all changes; return when they are on the disk.

        Callers that arrive during a write share the next one.

        Raises:
            sqlite3.Error, psycopg.Error: the changes could not be written. The next write tries again.
        """
        self._asked += 1
        mine = self._asked
        async with self._lock:
            if self._done >= mine:
                return
            asked = self._asked
            now = {key: (_fingerprint(row), kind, row) for kind in _KINDS for key, row in self._rows(kind)}
            changed = {
                key: self._text(kind, row)
                for key, (mark, kind, row) in now.items()
                if self._written.get(key) != mark
            }
            gone = self._written.keys() - now.keys()
            if changed or gone:
                written = {key: mark for key, (mark, _, _) in now.items()}
                await self._saver.save_rows(changed, gone)
                self._written = written
            self._done = asked

    async def write_last(self) -> None:
        """Write all changes when the server ends. The current start of an open run then counts as no attempt.

        Otherwise the server would give up a run after a few reloads.

        Raises:
            sqlite3.Error, psycopg.Error: see `write`.
        """
        for run in self._store["runs"]:
            if run["status"] in _OPEN and self._attempts.get(run["run_id"]) and not _is_unsaved(run):
                self._attempts[run["run_id"]] -= 1
                self._written.pop(("runs", str(run["run_id"])), None)
        await self.write()

    async def restore(self) -> None:
        """Replace the content of the server's lists with what the database holds.

        A run that had not ended becomes pending again. If it had started, that start counts as an attempt.
        A run without a thread saves no steps, so a second start would repeat its commands: if the run had
        started, it is removed.
        """
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in _KINDS}
        for (kind, key), text in (await self._saver.load_rows()).items():
            if kind not in found:
                continue
            row, attempts = _read(text)
            self._written[kind, key] = _fingerprint(row)
            row |= {"values": None, "interrupts": {}} if kind == "threads" else {}
            if kind == "runs" and row["status"] in _OPEN:
                began = await self._saver.began(str(row["run_id"]))
                self._attempts[row["run_id"]] = max(attempts, began)
                row["status"] = "pending"
            found[kind].append(row)
        lost = {run["thread_id"] for run in found["runs"] if self._is_lost(run)}
        for kind, restored in found.items():
            rows = [row for row in restored if row.get("thread_id") not in lost]
            rows.sort(key=lambda row: (str(row.get("created_at")), str(row.get("version"))))
            own = [row for row in self._store.get(kind) or [] if _is_own(kind, row)]
            self._store[kind] = own + rows
        logger.info("restored %d threads and %d runs", len(found["threads"]), len(found["runs"]))

    def _is_lost(self, run: Mapping[str, Any]) -> bool:
        if run["status"] not in _OPEN or not _is_unsaved(run) or not self._attempts.get(run["run_id"]):
            return False
        logger.warning("run %s has no thread and was cut off: it is not repeated", run["run_id"])
        return True

    def _rows(self, kind: str) -> Iterator[tuple[Key, dict[str, Any]]]:
        names = _KINDS[kind]
        for row in self._store.get(kind) or ():
            if not _is_own(kind, row):
                yield (kind, "/".join(str(row[name]) for name in names)), row

    def _text(self, kind: str, row: Mapping[str, Any]) -> str:
        row = {name: value for name, value in row.items() if name not in _REBUILT.get(kind, ())}
        if kind == "runs":
            row["kwargs"] = _as_it_was_sent(row["kwargs"])
        attempts = self._attempts.get(row["run_id"], 0) if kind == "runs" else 0
        kinds = {"uuids": UUID, "times": datetime}
        document: dict[str, Any] = {
            name: [field for field, value in row.items() if isinstance(value, type_)]
            for name, type_ in kinds.items()
        }
        document["row"] = json.loads(json.dumps(row, default=_plain))
        document[_ATTEMPTS] = attempts
        return json.dumps(self._known.values(document) if self._known else document)


def _as_it_was_sent(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's arguments without the internal entries that LangGraph adds when the run starts."""
    config = kwargs.get("config") or {}
    given = config.get("configurable") or {}
    configurable = {name: value for name, value in given.items() if not name.startswith(OWN_ENTRIES)}
    return {**kwargs, "config": {**config, "configurable": configurable}}


def _read(text: str) -> tuple[dict[str, Any], int]:
    document = json.loads(text)
    row: dict[str, Any] = document["row"]
    reading: dict[str, Callable[[str], Any]] = {"uuids": UUID, "times": datetime.fromisoformat}
    for name, read in reading.items():
        row |= {field: read(row[field]) for field in document[name]}
    return row, int(document[_ATTEMPTS])


def _is_unsaved(run: Mapping[str, Any]) -> bool:
    """Return whether the run has no thread. LangGraph's server then saves no checkpoints."""
    return bool(run["kwargs"].get("temporary"))


def _fingerprint(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in _TOLD_BY)


def _is_own(kind: str, row: Mapping[str, Any]) -> bool:
    """Return whether the server creates this row at each start: an assistant for each graph."""
    return kind.startswith("assistant") and (row.get("metadata") or {}).get("created_by") == "system"


def _plain(value: Any) -> Any:
    """Convert a value that JSON does not have. The user of a run is an object of the server."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if hasattr(value, "dict"):
        return value.dict()
    # One unknown value must not stop the whole write.
    logger.warning("a %s is left out of what is written down of threads and runs", type(value).__name__)
    return None
