"""What was written, what was acknowledged, and whether the disk agrees."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

__all__ = ["Ledger", "digest", "half_files"]

ABSENT = ""


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


class Ledger:
    """The files of one writer: what each may hold.

    A write that was begun leaves the old content or the new; one that was acknowledged the new alone. A token
    that was acknowledged stands in its journal once; one that was only sent, at most once: nothing is run
    twice.

    Args:
        tell: is given each event before it counts, as a line that `replay` of another ledger takes.
    """

    def __init__(self, tell: Callable[[str], None] = lambda _: None) -> None:
        self._tell = tell
        self.files: dict[str, set[str]] = {}
        """Path below the workspace -> digests of what it may hold."""
        self.journals: dict[str, dict[str, bool]] = {}
        """Path below the workspace -> token -> whether it was acknowledged."""
        self.unanswered: Counter[str] = Counter()
        """Digests of what was to be written, and was never acknowledged."""

    def writing(self, path: str, content: bytes) -> None:
        self._take("writing", path, digest(content))

    def written(self, path: str, content: bytes) -> None:
        self._take("written", path, digest(content))

    def noting(self, journal: str, token: str) -> None:
        self._take("noting", journal, token)

    def noted(self, journal: str, token: str) -> None:
        self._take("noted", journal, token)

    def forget(self, journal: str) -> None:
        self._take("forget", journal, "")

    def replay(self, line: str) -> None:
        """Take an event that another ledger has told."""
        self._take(*json.loads(line))

    def _take(self, event: str, path: str, value: str) -> None:
        self._tell(json.dumps([event, path, value]))
        if event == "writing":
            self.files.setdefault(path, {ABSENT}).add(value)
            self.unanswered[value] += 1
        elif event == "written":
            self.files[path] = {value}
            self.unanswered -= Counter([value])
        elif event == "forget":
            self.journals.pop(path, None)
        else:
            self.journals.setdefault(path, {})[value] = event == "noted"

    def faults(self, root: Path) -> list[str]:
        """Where the disk is not as it should be. What it holds is taken for known from then on."""
        found: list[str] = []
        for path, allowed in self.files.items():
            held = digest((root / path).read_bytes()) if (root / path).exists() else ABSENT
            if held not in allowed:
                found.append(f"{path} holds {held or 'nothing'}, not {' or '.join(sorted(allowed))}")
            self.files[path] = {held}
        for path, tokens in self.journals.items():
            text = (root / path).read_text() if (root / path).exists() else ""
            for token, acknowledged in tokens.items():
                times = text.count(token)
                if times > 1 or (acknowledged and not times):
                    found.append(f"{path} has {token} {times} times, acknowledged: {acknowledged}")
        return found


def half_files(ledgers: Iterable[Ledger], root: Path, *, breaks: int) -> list[str]:
    """Files that writers killed in their work have left, and may not: see `libs.sandbox.disk.new_file`.

    A whole one beside what it was to replace may be left, where the kill came between two calls of the
    kernel: once in 20 breaks, at most.
    """
    whole = {value for ledger in ledgers for value in ledger.unanswered}
    left = {path.relative_to(root).as_posix(): digest(path.read_bytes()) for path in root.rglob("*.part")}
    half = [f"{path} is half a file" for path, held in left.items() if held not in whole]
    return half or ([] if len(left) <= max(1, breaks // 20) else sorted(left))
