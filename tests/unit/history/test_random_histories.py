"""Random histories of threads and a person: a return brings back what is the thread's, and names the rest.

The reference is a copy of the workspace at each moment, and who made each step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as given_by
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from libs.persistence.thread_database import SqliteDatabase
from libs.sandbox.host import on_core
from libs.workspace.history import Moved
from tests.support.snapshots.random_changes import COMMANDS, Change, apply, change, check_restored, emptied
from tests.support.snapshots.trees import Tree, tree
from tests.support.workspaces.captured_threads import CapturedThreads, later

PERSON, BOTH = "person", "both threads at once"
few_changes = given_by.lists(change, min_size=1, max_size=5)
threads_of = given_by.sampled_from(["t", "u"])


@dataclass(frozen=True)
class Point:
    """A moment of a thread."""

    ticket: str
    files: Tree
    steps: int
    """Steps until then."""


class Histories(RuleBasedStateMachine):
    """Turns and edits, with returns between them; a return to the moment before a return is its undo."""

    def __init__(self, threads: CapturedThreads, run: Callable[[Any], Any], *, shared: bool) -> None:
        super().__init__()
        self.threads = threads
        self.run = run
        self.shared = shared
        self.sandbox = threads.sandbox_of("t")
        self.root = self.sandbox.root
        self.sandbox.start()
        emptied(self.root)
        self.steps: list[tuple[str, set[str]]] = []
        """Who made each step, and the paths that differ after the step."""
        self.points: dict[str, list[Point]] = {"t": [], "u": []}

    @initialize(folders=given_by.lists(given_by.sampled_from(["a", "b", "data"]), unique=True))
    def begin(self, folders: list[str]) -> None:
        """Without folders from the begin, few are ever moved."""
        before = tree(self.root)
        for folder in folders:
            for name in ("x", "deep/y"):
                place = self.root / folder / name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(folder)
        self.made_by(PERSON, before)

    def made_by(self, who: str, before: Tree) -> None:
        now = tree(self.root)
        changed = {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}
        self.steps.append((who, changed))
        self.run(later())

    def reached(self, thread: str, ticket: str) -> None:
        self.points[thread].append(Point(ticket, tree(self.root), len(self.steps)))

    def begins_turn(self, thread: str) -> None:
        ticket = self.run(self.threads.history.captures.begin_turn(thread))
        self.run(self.threads.history.captures.settled(thread))
        self.reached(thread, ticket)

    @rule(thread=threads_of, steps=given_by.lists(few_changes | given_by.sampled_from(COMMANDS), max_size=2))
    def turn(self, thread: str, steps: list[Any]) -> None:
        thread = thread if self.shared else "t"
        captures = self.threads.history.captures
        self.begins_turn(thread)
        for step in steps:
            before = tree(self.root)
            self.run(self.command(thread, step))
            ticket = self.run(captures.after_step(thread))
            self.run(captures.settled(thread))
            self.made_by(thread, before)
            self.reached(thread, ticket)

    async def command(self, thread: str, step: str | list[Change]) -> None:
        if isinstance(step, str):
            await self.threads.command(f"{{ {step}; }} || true", thread)
        else:
            await self.at_once([thread], step)

    @on_core
    async def at_once(self, threads: list[str], changes: list[Change]) -> None:
        """Make changes during a command of each thread."""
        if threads:
            async with self.sandbox.turns.command(threads[0]):
                await self.at_once(threads[1:], changes)
        else:
            apply(self.root, changes)

    @precondition(lambda self: self.shared)
    @rule(changes=few_changes)
    def turns_at_once(self, changes: list[Change]) -> None:
        captures = self.threads.history.captures
        for thread in "tu":
            self.begins_turn(thread)
        before = tree(self.root)
        self.run(self.at_once(["t", "u"], changes))
        tickets = {thread: self.run(captures.after_step(thread)) for thread in "tu"}
        for thread in "tu":
            self.run(captures.settled(thread))
        self.made_by(BOTH, before)
        for thread, ticket in tickets.items():
            self.reached(thread, ticket)

    @rule(changes=few_changes)
    def person(self, changes: list[Change]) -> None:
        before = tree(self.root)
        apply(self.root, changes)
        self.made_by(PERSON, before)

    @precondition(lambda self: any(self.points.values()))
    @rule(thread=threads_of, back=given_by.integers(1, 8))
    def go_back(self, thread: str, back: int) -> None:
        thread = thread if self.points[thread] else "tu".replace(thread, "")
        points = self.points[thread]
        point = points[-min(back, len(points))]
        present, steps = tree(self.root), len(self.steps)
        moved: Moved = self.run(self.threads.history.go_back(thread, point.ticket))
        assert moved.instead is None
        self.check(thread, point, present, moved)
        self.made_by(thread, present)
        points.append(Point(moved.before, present, steps))
        self.reached(thread, self.run(self.threads.history.captures.present(thread)))

    def check(self, thread: str, point: Point, present: Tree, moved: Moved) -> None:
        kept = moved.restored.kept
        check_restored(tree(self.root), point.files, present, moved.restored)
        by: dict[str, set[str]] = {}
        for who, paths in self.steps[point.steps :]:
            for path in paths:
                by.setdefault(path, set()).add(who)
        for path, authors in by.items():
            if present.get(path) == point.files.get(path):
                continue
            if self.shared and authors != {thread}:
                assert path in kept, f"{path} is of {authors}"
            elif path in kept:
                assert self.is_held(path, by, present, point.files, thread), f"{path}: {kept[path]}"

    def is_held(self, path: str, by: dict[str, set[str]], present: Tree, wanted: Tree, thread: str) -> bool:
        """Return whether something above or below a path is not the thread's own, or cannot be kept."""

        def others(place: str) -> bool:
            return (self.shared and by.get(place, {thread}) != {thread}) or "special" in (
                *present.get(place, ())[:1],
                *wanted.get(place, ())[:1],
            )

        related = [
            each
            for each in by.keys() | present.keys() | wanted.keys()
            if each == path or each.startswith(f"{path}/") or path.startswith(f"{each}/")
        ]
        return any(others(each) for each in related)


@pytest.fixture
def run() -> Iterator[Callable[[Any], Any]]:
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.mark.parametrize("examples", [5, pytest.param(100, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "thread"])
def test_return_brings_back_what_the_thread_changed_and_names_the_rest(
    tmp_path: Path, database: SqliteDatabase, run: Callable[[Any], Any], shared: bool, examples: int
) -> None:
    with CapturedThreads(tmp_path, database, shared=shared) as threads:
        run_state_machine_as_test(
            lambda: Histories(threads, run, shared=shared),
            settings=settings(
                max_examples=examples,
                stateful_step_count=8,
                suppress_health_check=list(HealthCheck),
                # To shrink a history takes longer than a test may take, which would hide the error.
                phases=(Phase.explicit, Phase.reuse, Phase.generate),
            ),
        )
