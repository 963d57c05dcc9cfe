"""Keeps what the program of a server prints as errors, in a file of this machine."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from libs.redaction import SecretFilter

__all__ = ["OpenLog", "ServerLog"]

_MOST_LOG: Final = 4 * 2**20
"""Bytes of a log. Then the log begins again."""


@dataclass(frozen=True, slots=True)
class ServerLog:
    """The log of one server, from its latest start on: 4 MB at most, without known secrets."""

    path: Path
    redact: SecretFilter

    def open(self) -> OpenLog:
        """Begin the log. Blocks.

        Raises:
            OSError: the file cannot be written.
        """
        return OpenLog(self.path, self.redact)


class OpenLog:
    """A log that is being written."""

    def __init__(self, path: Path, redact: SecretFilter) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._file = open(descriptor, "wb", buffering=0)  # noqa: PTH123, SIM115 - the mode, closed by __exit__
        self._stream = redact.stream()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            self._put(self._stream.flush())

    def write(self, data: bytes) -> None:
        """Add to the log. What may be the beginning of a secret waits for more."""
        self._put(self._stream.feed(data))

    def _put(self, data: bytes) -> None:
        with suppress(OSError):  # no space: the server must not wait for it
            if self._file.tell() + len(data) > _MOST_LOG:
                self._file.seek(0)
                self._file.truncate()
            self._file.write(data)
