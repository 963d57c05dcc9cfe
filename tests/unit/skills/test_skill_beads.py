"""`skills.beads`: allowed values, ready issues, and several processes at once."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def beads(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("skills.beads")


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "issues.db")


def titles(issues: list[Any]) -> list[str]:
    return [issue.title for issue in issues]


def test_new_issue_is_open_and_read_back(beads: Any, db: str) -> None:
    title = "'; DROP TABLE issues; -- $(touch hacked)"
    made = beads.create(title, description="ä\n€", type="bug", priority=0, db=db)
    assert beads.get(made.id, db=db) == made
    assert (made.id, made.title, made.description, made.type) == (1, title, "ä\n€", "bug")
    assert (made.status, made.priority, made.reason, made.blocked_by) == ("open", 0, "", ())
    assert made.created == made.updated
    assert made.created.endswith("Z")


def test_ready_lists_unblocked_issues_by_priority(beads: Any, db: str) -> None:
    first = beads.create("first", priority=3, db=db)
    second = beads.create("second", priority=4, db=db)
    beads.create("both", priority=0, blocked_by=[first.id, second.id, first.id], db=db)
    assert titles(beads.ready(db=db)) == ["first", "second"]
    closed = beads.close(first.id, "no longer needed", db=db)
    assert (closed.status, closed.reason) == ("closed", "no longer needed")
    assert beads.update(first.id, title="first", db=db).reason == "no longer needed"
    assert titles(beads.ready(db=db)) == ["second"]
    beads.close(second.id, db=db)
    assert titles(beads.ready(db=db)) == ["both"]
    assert beads.update(first.id, status="open", db=db).reason == ""
    assert titles(beads.ready(db=db)) == ["first"]
    for status in ("in_progress", "blocked", "closed"):
        beads.update(first.id, status=status, db=db)
        assert "first" not in titles(beads.ready(db=db))


def test_update_changes_only_the_given_fields(beads: Any, db: str) -> None:
    other = beads.create("other", db=db)
    made = beads.create("old", description="kept", blocked_by=[other.id], db=db)
    beads.update(made.id, title="new", priority=1, db=db)
    changed = beads.get(made.id, db=db)
    assert (changed.title, changed.priority) == ("new", 1)
    assert (changed.description, changed.blocked_by, changed.type) == ("kept", (other.id,), "task")
    assert beads.update(made.id, blocked_by=[], db=db).blocked_by == ()
    assert beads.get(other.id, db=db) == other


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"title": " "}, "1 to 500 characters"),
        ({"title": "x" * 501}, "1 to 500 characters"),
        ({"priority": -1}, "not -1"),
        ({"priority": True}, "not True"),
        ({"type": "story"}, "no type 'story'; there are bug, feature, task, epic, chore"),
        ({"status": "done"}, "no status 'done'; there are open, in_progress, blocked, closed"),
    ],
)
def test_wrong_value_changes_nothing(beads: Any, db: str, values: dict[str, Any], message: str) -> None:
    made = beads.create("x", db=db)
    with pytest.raises(ValueError, match=message):
        beads.update(made.id, **values, db=db)
    if "status" not in values:
        with pytest.raises(ValueError, match=message):
            beads.create(**{"title": "x", **values}, db=db)
    assert beads.list(db=db) == [made]


def test_circle_of_blockers_is_refused(beads: Any, db: str) -> None:
    one, two, three = (beads.create(title, db=db).id for title in ("one", "two", "three"))
    beads.update(two, blocked_by=[one], db=db)
    beads.update(three, blocked_by=[two], db=db)
    for blocker in (one, two, three):
        with pytest.raises(ValueError, match=f"issue {one} cannot wait for {blocker}"):
            beads.update(one, title="changed", blocked_by=[blocker], db=db)
    assert beads.get(one, db=db).blocked_by == ()
    assert beads.get(one, db=db).title == "one"
    # A diamond is not a cycle.
    assert beads.update(three, blocked_by=[one, two], db=db).blocked_by == (one, two)


def test_missing_issue_is_an_error(beads: Any, db: str) -> None:
    for call in (beads.get, beads.close, beads.update):
        with pytest.raises(LookupError, match="no issue 7"):
            call(7, db=db)
    with pytest.raises(LookupError, match="no issue 7"):
        beads.create("x", blocked_by=[7], db=db)
    assert beads.list(db=db) == []


def test_parallel_writers_lose_nothing(beads: Any, db: str) -> None:
    program = (
        "import sys; from skills.beads import create, close\n"
        "for n in range(10):\n"
        "    made = create(f'{sys.argv[2]}-{n}', db=sys.argv[1])\n"
        "    if n % 2: close(made.id, db=sys.argv[1])\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", program, db, str(n)], cwd=ROOT, stderr=subprocess.PIPE)
        for n in range(3)
    ]
    assert [(writer.communicate()[1], writer.returncode) for writer in writers] == [(b"", 0)] * 3
    assert len({issue.title for issue in beads.list(db=db)}) == 30
    assert len(beads.list("closed", db=db)) == 15
