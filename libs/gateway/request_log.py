"""What left and what was refused: one line of JSON for each request and each tunnel."""

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
"""Characters of a text that are kept."""


@dataclass(slots=True)
class LogEntry:
    """One request or tunnel, filled in as it goes on."""

    sandbox: str = ""
    thread: str = ""
    method: str = ""
    scheme: str = ""
    host: str = ""
    port: int = 0
    path: str = ""
    """Without the query, which may well hold what nobody should read in a log."""
    decision: str = "allowed"
    """`allowed` or `refused`."""
    reason: str = ""
    """Why it was refused, or what went wrong."""
    status: int = 0
    """Of the answer; 0 where there was none."""
    bytes_in: int = 0
    """Bytes that came from the host."""
    bytes_out: int = 0
    """Bytes that came from the sandbox, after the head of the request."""
    seconds: float = 0.0
    time: str = ""
    """When it ended, in UTC."""


class RequestLog:
    """A file of such lines. Thread-safe; a thread of its own writes, so that no caller waits for a disk.

    The file has mode 0600. At 10 MiB it is renamed to end in `.1`, in the place of the one before. Where
    10,000 entries wait, further ones are only counted; where the file cannot be written, a warning says so.
    """

    def __init__(
        self, path: Path, *, redact: Callable[[str], str] | None = None, most_bytes: int = _MOST_BYTES
    ) -> None:
        """Log to a file, which is made with the first entry.

        Args:
            path: its folder is made where it is missing.
            redact: takes secrets out of every text.
            most_bytes: of the file, from which a new one is begun.
        """
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
        """Write an entry soon. Never waits, never raises; does nothing once closed."""
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
        """Write what waits, and end; a disk that does not answer is waited for a few seconds."""
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
        """Have a file to write to: the same, or a new one where it is full, or somebody has moved it away."""
        if self._file >= 0 and not self._is_there():
            self._close_file()
        if self._file < 0:
            self._open()
        if os.fstat(self._file).st_size >= self._most_bytes:
            self._close_file()
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            self._open()

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file), self._path.stat())
        except FileNotFoundError:
            return False

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self._path, flags, 0o600)
        os.fchmod(self._file, 0o600)

    def _close_file(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
