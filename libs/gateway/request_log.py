"""The request log: one line of JSON for each request and each tunnel."""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

__all__ = ["LogEntry", "RequestLog"]

logger = logging.getLogger(__name__)

_MOST_BYTES: Final = 10 * 2**20
_MOST_WAITING: Final = 10_000
_PATIENCE: Final = 5.0
_MOST_CHARS: Final = 2_000
"""Longest text in a line, in characters."""


@dataclass(slots=True)
class LogEntry:
    """One request or tunnel. The fields are set while the request runs."""

    sandbox: str = ""
    thread: str = ""
    method: str = ""
    scheme: str = ""
    host: str = ""
    port: int = 0
    path: str = ""
    """Without the query, which may contain secrets."""
    decision: str = "allowed"
    """`allowed` or `refused`."""
    reason: str = ""
    """Why the request was refused or failed."""
    status: int = 0
    """Status of the answer; 0 without an answer."""
    bytes_in: int = 0
    """Bytes that came from the host."""
    bytes_out: int = 0
    """Bytes that came from the sandbox, after the head of the request."""
    seconds: float = 0.0
    time: str = ""
    """End of the request, in UTC."""


class RequestLog:
    """The log file. Thread-safe; a thread writes, so no caller waits for the disk.

    The file has mode 0600. At 10 MiB the file is renamed to end in `.1`. While 10,000 entries wait, further
    entries are only counted. If the file cannot be written, one warning is logged.
    """

    def __init__(
        self, path: Path, *, redact: Callable[[str], str] | None = None, most_bytes: int = _MOST_BYTES
    ) -> None:
        """Prepare the log. The first entry creates the file and its folder. `redact`: for every text."""
        self._path = path
        self._redact = redact or (lambda text: text)
        self._most_bytes = most_bytes
        self._waiting: queue.Queue[LogEntry | None] = queue.Queue(_MOST_WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._dropped = 0
        self._warned = False
        self._file = -1

    def record(self, entry: LogEntry) -> None:
        """Queue an entry. Never waits, never raises; does nothing after `close`."""
        with self._lock:
            if self._closed:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_all, name="request-log", daemon=True)
                self._thread.start()
            entry.time = datetime.now(UTC).isoformat(timespec="milliseconds")
            try:
                self._waiting.put_nowait(entry)
            except queue.Full:
                self._dropped += 1

    def close(self) -> None:
        """Write queued entries and end the thread. Waits at most ten seconds for the disk."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._closed = True
        if thread:
            with suppress(queue.Full):
                self._waiting.put(None, timeout=_PATIENCE)
            thread.join(_PATIENCE)

    # -- on the writing thread

    def _write_all(self) -> None:
        try:
            while entry := self._waiting.get():
                try:
                    self._ready()
                    os.write(self._file, self._line(entry))
                except OSError as error:
                    if not self._warned:
                        self._warned = True
                        logger.warning("requests are not logged: %s", error)
        finally:
            self._close_file()

    def _line(self, entry: LogEntry) -> bytes:
        fields: dict[str, object] = {
            name: self._redact(value)[:_MOST_CHARS] if isinstance(value, str) else value
            for name, value in asdict(entry).items()
        }
        fields = {"time": fields.pop("time"), **fields, "seconds": round(entry.seconds, 4)}
        with self._lock:
            if self._dropped:
                fields["dropped_before"], self._dropped = self._dropped, 0
        return json.dumps(fields).encode() + b"\n"

    def _ready(self) -> None:
        """Open the file if needed: a new one if the file is full."""
        if self._file < 0:
            self._open()
        if os.fstat(self._file).st_size >= self._most_bytes:
            self._close_file()
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            self._open()

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self._path, flags, 0o600)
        os.fchmod(self._file, 0o600)

    def _close_file(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
