"""The rules file of a running program, read again when the file changes."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock

from libs.middleware.approvals.rules.rules import Rules, RulesError

__all__ = ["RulesFile"]


class RulesFile:
    """Returns the rules as the file now has them. Thread-safe; reading blocks.

    Args:
        path: the rules file. None: there are no rules.
        needed: whether it is an error that there is no such file. A file that was there once is needed.
    """

    def __init__(self, path: Path | None, *, needed: bool = False) -> None:
        self.path = path
        self._needed = needed
        self._lock = Lock()
        self._seen: tuple[int, ...] | None = None
        self._result: Rules | RulesError = Rules()

    def rules(self) -> Rules:
        """Return the rules. The file is read only if it has changed.

        Raises:
            RulesError: the file is missing or wrong. The error stays until the file is mended.
        """
        if self.path is None:
            return Rules()
        with self._lock:
            try:
                found = os.stat(self.path)  # noqa: PTH116 - a Path would be made for each call
                seen = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            except FileNotFoundError:
                if not self._needed:
                    return Rules()
                raise RulesError(f"{self.path}: there is no such file.") from None
            except OSError as error:
                raise RulesError(f"{self.path}: cannot be read: {error}") from None
            if seen != self._seen:
                self._needed = True
                self._seen = seen
                try:
                    self._result = Rules.load(self.path)
                except RulesError as error:
                    self._result = error
            if isinstance(self._result, RulesError):
                raise RulesError(str(self._result))
            return self._result
