"""Random histories: after a restore, the workspace is as it was at the capture, but for what is named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as given_by

from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.workspace import WorkspaceStore
from tests.support.snapshots.random_changes import COMMANDS, apply, change, check_restored, emptied
from tests.support.snapshots.trees import Tree, tree

step = given_by.one_of(given_by.lists(change, max_size=6), given_by.sampled_from(COMMANDS))
history = given_by.lists(step, min_size=1, max_size=4)


@pytest.mark.thorough
def test_restore_brings_back_any_state_of_a_random_history(
    sandbox: LocalSandbox, store: WorkspaceStore
) -> None:
    """Changes come from commands and from the host; captures and restores from two threads in one folder."""
    with LocalSandbox(sandbox.root) as other:

        @settings(max_examples=80)
        @given(history, given_by.randoms())
        def check(steps: list[Any], random: Any) -> None:
            emptied(sandbox.root)
            states: list[tuple[str, Tree]] = []
            for step in steps:
                make(sandbox, step)
                captured = store.capture(random.choice((sandbox, other)))
                states.append((captured.id, tree(sandbox.root)))
            present = states[-1]
            to, wanted = random.choice(states)
            restored = store.restore(random.choice((sandbox, other)), to)
            check_restored(tree(sandbox.root), wanted, present[1], restored)
            store.restore(sandbox, present[0])

        check()


def test_restore_keeps_what_a_person_has_changed_since(sandbox: LocalSandbox, store: WorkspaceStore) -> None:
    @settings(max_examples=60)
    @given(step, step, given_by.lists(change, max_size=3))
    def check(first: Any, of_agent: Any, of_person: Any) -> None:
        emptied(sandbox.root)
        make(sandbox, first)
        to, wanted = store.capture(sandbox).id, tree(sandbox.root)
        make(sandbox, of_agent)
        expect, left = store.capture(sandbox).id, tree(sandbox.root)
        make(sandbox, of_person)
        present = tree(sandbox.root)
        restored = store.restore(sandbox, to, expect=expect)
        found = tree(sandbox.root)
        check_restored(found, wanted, present, restored)
        for path in present.keys() | left.keys():
            if present.get(path) != left.get(path) and present.get(path) != wanted.get(path):
                assert found.get(path) == present.get(path)
                assert path in restored.kept

    check()


def make(sandbox: LocalSandbox, step: Any) -> None:
    if isinstance(step, str):
        sandbox.run(step)
    else:
        apply(sandbox.root, step)
