"""Record what was written and acknowledged, and compare the record with the disk."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

ABSENT = ""


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


class Ledger:
    """The files of one writer, and the contents that each may have.

    A write that has begun leaves the old content or the new one; an acknowledged write leaves the new one. An
    acknowledged token is in its journal once. A token that was only sent is there at most once, because no
    command runs twice.

    Args:
        tell: Gets each event before it counts, as a line for `replay` of another ledger.
    """

    def __init__(self, tell: Callable[[str], None] = lambda _: None) -> None:
        self._tell = tell
        self.files: dict[str, set[str]] = {}
        """Path below the workspace -> digests of the contents that the file may have."""
        self.journals: dict[str, dict[str, bool]] = {}
        """Path below the workspace -> token -> whether it was acknowledged."""
        self.unanswered: Counter[str] = Counter()
        """Digests of contents whose write was never acknowledged."""

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
        """Take an event of another ledger."""
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
        """Return the differences between disk and ledger. The ledger then expects the content of the disk."""
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
    """Return half-written files that killed writers have left: see `disk.new_file`.

    A whole new file beside the old one is allowed, if the kill came between two system calls: at most once in
    20 breaks.
    """
    whole = {value for ledger in ledgers for value in ledger.unanswered}
    left = {path.relative_to(root).as_posix(): digest(path.read_bytes()) for path in root.rglob("*.part")}
    half = [f"{path} is half a file" for path, held in left.items() if held not in whole]
    return half or ([] if len(left) <= max(1, breaks // 20) else sorted(left))
