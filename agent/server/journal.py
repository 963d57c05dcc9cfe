"""The threads and runs of LangGraph's server, written to the database before anybody is told of them.

The server has them in lists in memory, which it saves to `.langgraph_api/` every ten seconds. Compared with
what was written last, they tell what has changed, whatever route or worker changed it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from types import ModuleType
from typing import Any
from uuid import UUID

from agent.sinks import Redact
from libs.persistence.rows import Key, load_rows, save_rows
from libs.persistence.served_saver import ServedSaver

__all__ = ["Journal"]

logger = logging.getLogger(__name__)

_KINDS: Mapping[str, tuple[str, ...]] = {
    "threads": ("thread_id",),
    "runs": ("run_id",),
    "assistants": ("assistant_id",),
    "assistant_versions": ("assistant_id", "version"),
    "crons": ("cron_id",),
}
"""Kind of row -> what identifies one."""

_TOLD_BY = ("status", "updated_at", "version", "next_run_date")
"""Fields that tell that a row has changed: whatever changes one sets one of these."""

_REBUILT = {"threads": {"values", "interrupts"}}
"""Fields that checkpoints have."""

_OPEN = ("pending", "running")
_ATTEMPTS = "attempts"


class Journal:
    """What a server knows, in its database.

    Args:
        saver: the way to the database.
        database: LangGraph's module that has the lists (`GLOBAL_STORE`) and counts attempts.
        known: takes secrets out of what is written.
    """

    def __init__(self, saver: ServedSaver, database: ModuleType, known: Redact | None = None) -> None:
        self._saver = saver
        self._store: dict[str, list[dict[str, Any]]] = database.GLOBAL_STORE
        self._attempts: dict[UUID, int] = database.GLOBAL_RETRY_COUNTER._counters
        self._known = known
        self._written: dict[Key, tuple[Any, ...]] = {}
        self._lock = asyncio.Lock()
        self._asked = self._done = 0

    async def write(self) -> None:
        """Write what has changed; returns when it is on the disk.

        Callers that come while it is being written share the next write.

        Raises:
            sqlite3.Error, psycopg.Error: it could not be written. It is tried again with the next write.
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
                await save_rows(self._saver, changed, gone)
                self._written = written
            self._done = asked

    async def restore(self) -> None:
        """Put what was written into the server's lists, in place of what it has there.

        A run that had not ended waits to be carried out again; whether it had begun counts as an attempt.
        """
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in _KINDS}
        for (kind, key), text in (await load_rows(self._saver)).items():
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
        for kind, rows in found.items():
            rows.sort(key=lambda row: (str(row.get("created_at")), str(row.get("version"))))
            own = [row for row in self._store.get(kind) or [] if _is_own(kind, row)]
            self._store[kind] = own + rows
        open_runs = sum(row["status"] in _OPEN for row in found["runs"])
        logger.info("restored %d threads, and %d runs that had not ended", len(found["threads"]), open_runs)

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
    """What a run was asked for, without the functions and the like that LangGraph adds when it begins."""
    config = kwargs.get("config") or {}
    given = config.get("configurable") or {}
    configurable = {name: value for name, value in given.items() if not name.startswith("__pregel_")}
    return {**kwargs, "config": {**config, "configurable": configurable}}


def _read(text: str) -> tuple[dict[str, Any], int]:
    document = json.loads(text)
    row: dict[str, Any] = document["row"]
    reading: dict[str, Callable[[str], Any]] = {"uuids": UUID, "times": datetime.fromisoformat}
    for name, read in reading.items():
        row |= {field: read(row[field]) for field in document[name]}
    return row, int(document[_ATTEMPTS])


def _fingerprint(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in _TOLD_BY)


def _is_own(kind: str, row: Mapping[str, Any]) -> bool:
    """Whether the server makes this at each start: an assistant for each graph."""
    return kind.startswith("assistant") and (row.get("metadata") or {}).get("created_by") == "system"


def _plain(value: Any) -> Any:
    """What JSON does not have; the person that a run is for is an object of the server."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if hasattr(value, "dict"):
        return value.dict()
    # It must not keep all else from being written.
    logger.warning("a %s is left out of what is written down of threads and runs", type(value).__name__)
    return None
