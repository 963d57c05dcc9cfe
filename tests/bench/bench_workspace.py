"""Captures and restores of a workspace, beside a shadow repository of git and a copy of the files."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from libs.backends.docker import DockerExecutionBackend
from libs.persistence.thread_database import SqliteDatabase
from libs.sandbox.host import core
from libs.workspace import Catalog, Contents, WorkspaceStore
from tests.bench.bench_sandboxes import image, in_thread, runtime
from tests.bench.measure import MOST_ROUNDS, Figure, Times, memory_grown, timed

FOLDERS, FILES, SIZE = 100, 100, 10_000
"""The tree of many files: folders, files in each, and bytes of a file."""
LARGE = 1_000
"""Files of 1 MB in the large tree."""
CHANGED = 10
SMALL_CAPTURES = 100
ROUNDS = 30
COPIES = 12
"""Rounds with a copy of the whole tree, which takes long."""
BEGUN = 0.2
"""Seconds from the begin of a capture until the next command."""
SETTLED = 1.2
"""Seconds until the next capture trusts the times of files that were changed."""
_THREAD = "bench"
_FILL = """
import os, random
random.seed(1)
for number in range({files}):
    folder = f"/workspace/tree/{{number // {each}}}"
    os.makedirs(folder, exist_ok=True)
    half = random.randbytes({size} // 2)
    with open(f"{{folder}}/{{number % {each}}}", "wb") as file:
        file.write(half + (half[: {size} // 20].hex() * 5)[: {size} // 2].encode())
"""
"""Half of each file is random, as in an archive; the other half is text that repeats."""
_CHANGE = "for i in $(seq {count}); do echo {number} $i > /workspace/tree/$i/0; done"
_PEAKS = "grep -H VmHWM /proc/[0-9]*/status 2>/dev/null || true"


def figures(root: Path) -> Iterator[Figure]:
    with _Workspace(root / "many", FOLDERS * FILES, FILES, SIZE) as many:
        yield from _unchanged(many)
        yield from _changed(many)
        yield _delay(many)
        yield _kept(many)
    yield from _large(root / "large")


class _Workspace:
    """A sandbox with a tree of files, a store of captures, and a shadow repository."""

    def __init__(self, root: Path, files: int, each: int, size: int) -> None:
        self.root = root
        self.backend = DockerExecutionBackend(
            root / "workspace", name="bench-workspace", image=image(), runtime=runtime()
        )
        self.run(f"python3 -c '{_FILL.format(files=files, each=each, size=size)}'")
        self.sandbox = self.backend.sandbox
        self.sandbox.file("ls", path="/workspace")  # the file worker has loaded its modules
        self._number = itertools.count()
        self.git("init", "--quiet")
        time.sleep(SETTLED)

    def __enter__(self) -> _Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.backend.close()

    def run(self, command: str) -> str:
        result = self.backend.execute(command)
        assert result.exit_code == 0, result
        return result.output

    def peaks(self) -> dict[str, float]:
        """Return the peak of the memory of each process in the sandbox, in MB."""
        lines = [line.split() for line in self.run(_PEAKS).splitlines()]
        return {line[0]: int(line[1]) / 1024 for line in lines}

    def change(self, count: int = CHANGED) -> None:
        self.run(_CHANGE.format(count=count, number=next(self._number)))

    def store(self) -> tuple[WorkspaceStore, SqliteDatabase]:
        """Return a new store and its database."""
        place = self.root / f"store-{next(self._number)}"
        database = SqliteDatabase(place / "threads.sqlite")
        return WorkspaceStore(Catalog(database), Contents(str(place / "contents"))), database

    def git(self, *arguments: str) -> str:
        places = {"GIT_DIR": str(self.root / "shadow"), "GIT_WORK_TREE": str(self.root / "workspace")}
        done = subprocess.run(
            ["git", *arguments], env=os.environ | places, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def shadow(self) -> str:
        """Add the files to the shadow repository. Return the name of the tree."""
        self.git("add", "-A")
        return self.git("write-tree")

    def copy(self) -> None:
        subprocess.run(
            ["cp", "-a", self.root / "workspace", self.root / f"copy-{next(self._number)}"], check=True
        )

    def remove_copies(self) -> None:
        subprocess.run(["rm", "-rf", *self.root.glob("copy-*")], check=True)


GIT, COPY = "git add -A && git write-tree", "cp -a"


def _rounds(
    contestants: Mapping[str, tuple[Callable[[], object], Callable[[], object]]], rounds: int = ROUNDS
) -> Times:
    """Time each contestant once a round, in random order, after its untimed preparation."""
    rounds = min(rounds, MOST_ROUNDS or rounds)
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name in random.sample(list(contestants), len(contestants)):
            prepare, does = contestants[name]
            prepare()
            seconds = timed(does)
            if number:
                samples[name].append(seconds)
    return Times(samples)


def _unchanged(many: _Workspace) -> Iterator[Figure]:
    store, _ = many.store()
    store.capture(many.sandbox)
    many.shadow()
    times = _rounds(
        {
            GIT: (lambda: None, many.shadow),
            COPY: (many.remove_copies, many.copy),
            "sandbox": (lambda: None, lambda: store.capture(many.sandbox)),
        },
        rounds=COPIES,
    )
    yield times.figure(
        "capture of 10,000 unchanged files, 100 MB", "at most 100 ms", times.median("sandbox") <= 0.100
    )


def _changed(many: _Workspace) -> Iterator[Figure]:
    store, _ = many.store()
    base = store.capture(many.sandbox).id
    tree = many.shadow()
    times = _rounds(
        {
            GIT: (many.change, many.shadow),
            "sandbox": (many.change, lambda: store.capture(many.sandbox)),
        }
    )
    yield times.figure(
        f"capture after {CHANGED} of 10,000 files were changed",
        "at most 120 ms",
        times.median("sandbox") <= 0.120,
    )

    def ours() -> None:
        many.change()
        store.capture(many.sandbox)

    def theirs() -> None:
        many.change()
        many.shadow()

    def restore() -> None:
        restored = store.restore(many.sandbox, base)
        assert len(restored.difference.changed) >= CHANGED, restored

    times = _rounds(
        {
            "git read-tree --reset -u": (theirs, lambda: many.git("read-tree", "--reset", "-u", tree)),
            "sandbox": (ours, restore),
        }
    )
    yield times.figure(
        f"restore of {CHANGED} of 10,000 files", "at most 100 ms", times.median("sandbox") <= 0.100
    )


def _delay(many: _Workspace) -> Figure:
    """Measure a command that comes a moment after a step, with and without a capture of what the step did."""
    store, _ = many.store()
    store.capture(many.sandbox)

    async def begin() -> None:
        async def capture() -> None:
            await store.acapture(many.sandbox)

        many.sandbox.turns.capture(_THREAD, capture)

    def step(*, captured: bool) -> None:
        in_thread(_THREAD, many.change)
        if captured:
            core().wait(begin())
        time.sleep(BEGUN)

    def command() -> None:
        in_thread(_THREAD, lambda: many.run("echo hi"))

    times = _rounds(
        {
            "without a capture": (lambda: step(captured=False), command),
            "sandbox": (lambda: step(captured=True), command),
        },
        rounds=2 * ROUNDS,
    )
    more = (times.median("sandbox") - times.median("without a capture")) * 1000
    return times.figure(
        "command 200 ms after the begin of a capture",
        "at most 1 ms more than without a capture",
        more <= 1,
        note=f"{more:+.2f} ms",
    )


def _kept(many: _Workspace) -> Figure:
    """Measure what captures of small changes add to the database."""
    store, database = many.store()

    def kilobytes() -> float:
        [[pages], [size]] = database.wait(lambda do: do("PRAGMA page_count") + do("PRAGMA page_size"))
        return float(pages * size / 1000)

    store.capture(many.sandbox)
    whole = database.wait(lambda do: do("SELECT length(change) FROM workspace_manifests"))[0][0] / 1000
    before = kilobytes()
    for number in range(SMALL_CAPTURES):
        many.change(1 + number % 3)
        store.capture(many.sandbox)
    grown = kilobytes() - before
    return Figure(
        f"{SMALL_CAPTURES} captures of small changes in 10,000 files, in the database",
        "kB",
        {"one whole manifest": whole, "sandbox": grown},
        "at most one whole manifest",
        grown <= whole,
    )


def _large(root: Path) -> Iterator[Figure]:
    with _Workspace(root, LARGE, 100, 1_000_000) as large:
        before = large.peaks()
        grown: list[float] = []

        def capture() -> None:
            large.store()[0].capture(large.sandbox)

        def measured() -> None:
            grown.append(memory_grown(capture))

        times = _rounds(
            {COPY: (large.remove_copies, large.copy), "sandbox": (lambda: None, measured)}, rounds=3
        )
        times.samples[GIT] = [timed(large.shadow)]
        after = large.peaks()
        inside = sum(after[process] - before[process] for process in before.keys() & after.keys())
        rates = {name: LARGE / times.median(name) for name in times.samples}
        yield Figure("first capture of 1 GB", "MB/s", rates, "at least 150 MB/s", rates["sandbox"] >= 150)
        for place, most in {"host": max(grown), "sandbox": inside}.items():
            yield Figure(
                f"memory of the {place} over idle, first capture of 1 GB",
                "MB",
                {"sandbox": most},
                "at most 32 MB",
                most <= 32,
            )
