"""Run servers whose threads work on a cluster, and judge everything that they say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from tests.load.journals import KINDS, Journal
from tests.support.waiting import eventually

__all__ = ["ClusterLoad"]

ROOT = Path(__file__).parents[2]
_LOST = "[The files that this step made or changed are lost: "
"""Begin of the note of a step whose files are gone."""


class ClusterLoad:
    """One server at a time, whose process can be killed. Its threads go on in the next one.

    Args:
        folder: working folder of the server: its database, snapshots and log.
        cluster: address of the cluster.
        name: begins the server's tokens. Servers that share threads have different names.
        journals: what is known of each thread. Servers that share threads share the journals.
        kinds: kinds of steps: see `tests.load.journals`.
        pause: seconds between two steps of a thread.
    """

    def __init__(
        self,
        folder: Path,
        cluster: str,
        threads: list[str],
        *,
        seed: str,
        image: str,
        name: str = "a",
        journals: dict[str, Journal] | None = None,
        settings: dict[str, Any] | None = None,
        kinds: Sequence[str] = KINDS,
        pause: float = 0.1,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.journals = journals if journals is not None else {thread: Journal() for thread in threads}
        self.errors: Counter[str] = Counter()
        self.lost = 0
        """Steps that ended with a note that files are lost, or with an error."""
        self.longest = 0.0
        """Seconds until the latest typed error came, of all since this was set."""
        self.gap = 0.0
        """Seconds without a command in a thread, the most since this was set. The time until a new server has
        imported everything does not count."""
        self.said = ""
        """The latest typed error."""
        self._ran: dict[str, float] = {}
        self.nodes: dict[str, str] = {}
        """Thread -> node of its latest command, as the sandbox names it."""
        self._name, self._seed, self._threads = name, seed, threads
        self._settings: dict[str, Any] = {
            "workspace_dir": str(folder / "workspace"),
            "snapshots_url": str(folder / "snapshots"),
            "sandbox_cluster": cluster,
            "sandbox_scope": "thread",
            "sandbox_image": image,
            "sandbox_wait": 30,
            **(settings or {}),
        }
        self._kinds, self._pause = list(kinds), pause
        self._starts = 0
        self._unanswered: dict[str, str] = {}
        self._lock = threading.Lock()
        self._events: Counter[tuple[str, str]] = Counter()
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread()

    def start(self) -> None:
        self._starts += 1
        self._ran = {}
        asked = {
            "settings": self._settings,
            "name": f"{self._name}{self._starts}",
            "threads": self._threads,
            "seed": f"{self._seed}/{self._starts}",
            "again": dict(self._unanswered),
            "kinds": self._kinds,
            "pause": self._pause,
        }
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.load.cluster_server", json.dumps(asked)],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._reader = threading.Thread(target=self._read, args=[self._process], daemon=True)
        self._reader.start()

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        assert self._process
        self._process.kill()
        self._over()

    def close(self, seconds: float = 120) -> None:
        """Let the steps under way end, then the sandboxes and the server."""
        assert self._process
        assert self._process.stdin
        if self._process.poll() is None:
            self._process.stdin.close()
            self._process.wait(seconds)
        code = self._process.returncode
        self._over()
        assert code == 0, (self.folder / "log").read_text()[-5000:]

    def _over(self) -> None:
        assert self._process
        self._process.wait(60)
        self._reader.join(60)
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process:
            self.kill()

    # -- what the server says

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout
        for line in process.stdout:
            with self._lock, (self.folder / "events").open("a") as events:
                events.write(f"{time.time():.2f} {line}")
                self._take(*json.loads(line))

    def _take(self, thread: str, event: str, token: str, detail: Any) -> None:
        journal = self.journals[thread]
        self._events[thread, event] += 1
        if event == "begins":
            journal.begins(token)
            self._ran.setdefault(thread, time.monotonic())
            self._unanswered[thread] = token
        elif event == "runs":
            journal.runs(token)
            self.nodes[thread] = detail
            now = time.monotonic()
            self.gap = max(self.gap, now - self._ran.get(thread, now))
            self._ran[thread] = now
        elif event == "ended":
            again = token.partition("-")[0] != f"{self._name}{self._starts}"
            code, output, _ = detail
            if not again:  # a recorded output tells of an earlier state
                journal.ended(token, code, output)
        elif event == "kept":
            journal.kept(token)
            self._unanswered.pop(thread, None)
        elif event == "lost":
            self.lost += 1
            if detail.startswith(_LOST):
                journal.gone.add(token)
            self._unanswered.pop(thread, None)
        elif event == "error":
            said, seconds = detail
            kind = said.partition(":")[0]
            if kind == "ClaimLost":
                journal.gone.add(token)
            self.errors[kind] += 1
            self.longest = max(self.longest, seconds)
            self.said = said
        else:
            journal.faults.append(f"{token}: {detail}")

    def check(self) -> None:
        """Fail if anything was wrong until now."""
        faults = [f"{thread}: {fault}" for thread, each in self.journals.items() for fault in each.faults]
        assert not faults, "\n".join([*faults[:5], (self.folder / "log").read_text()[-3000:]])
        assert self._process is None or self._process.poll() is None, (self.folder / "log").read_text()[
            -5000:
        ]

    def count(self, event: str) -> dict[str, int]:
        """Return how often an event came, for each thread."""
        with self._lock:
            return {thread: self._events[thread, event] for thread in self._threads}

    def go_on(self, seconds: float, event: str = "kept", more: int = 1) -> float:
        """Wait until every thread has an event again. Return the seconds that this took."""
        begun, before = time.monotonic(), self.count(event)

        def all_did() -> bool:
            self.check()
            now = self.count(event)
            return all(now[thread] >= before[thread] + more for thread in self._threads)

        eventually(all_did, seconds)
        return time.monotonic() - begun

    @property
    def steps(self) -> int:
        return sum(len(each.acknowledged) for each in self.journals.values())

    def until(self, holds: Callable[[], object], seconds: float) -> None:
        """Wait for a condition, and judge meanwhile."""

        def judged() -> object:
            self.check()
            return holds()

        eventually(judged, seconds)
