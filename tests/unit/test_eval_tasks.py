"""The tasks of tests/eval can be trusted: right results pass, plausible wrong ones do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.eval import __main__ as program
from tests.eval.checks import figure, first_named, month, numbers_in, on_day
from tests.eval.reference import PlainPython, play
from tests.eval.run import Score
from tests.eval.task import Check, Outcome, Task, Unsolved
from tests.eval.tasks import HELD_OUT, KINDS, PRACTICE, choose

ROOT = Path(__file__).parents[2]
TASKS = choose("all") + choose("practice") + choose("held-out")


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_reference_solution_passes(task: Task, tmp_path: Path) -> None:
    task.check(play(task, task.reference, tmp_path))


@pytest.mark.parametrize(
    ("task", "mistake"),
    [pytest.param(task, name, id=f"{task.name}: {name}") for task in TASKS for name in task.wrong],
)
def test_wrong_solution_does_not(task: Task, mistake: str, tmp_path: Path) -> None:
    with pytest.raises(Unsolved):
        task.check(play(task, task.mistaken(mistake), tmp_path))


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_neither_the_text_of_the_task_nor_nothing_is_an_answer(task: Task, tmp_path: Path) -> None:
    for answer in (task.text, "", "Done: the answer is in the output above."):
        with pytest.raises(Unsolved):
            task.check(Outcome(answer, PlainPython(tmp_path)))


def test_forty_tasks_of_ten_kinds_and_twice_twenty_beside_them() -> None:
    assert {kind: len(tasks) for kind, tasks in KINDS.items()} == dict.fromkeys(KINDS, 4)
    for more in (PRACTICE, HELD_OUT):
        assert {kind: len(tasks) for kind, tasks in more.items()} == dict.fromkeys(KINDS, 2)
    assert [len(choose(name)) for name in ("all", "practice", "held-out")] == [40, 20, 20]
    assert len({task.name for task in TASKS}) == len({task.text for task in TASKS}) == 80
    assert all(len(task.wrong) >= 2 for task in TASKS)
    assert not {task.name for task in TASKS} & {"all", "dev", "practice", "held-out", *KINDS}


def test_subsets() -> None:
    assert [task.name for task in choose("dev")] == [tasks[0].name for tasks in KINDS.values()]
    assert choose("logs") == list(KINDS["logs"])
    assert [task.name for task in choose("roman")] == ["roman"]
    assert [task.name for task in choose("recycling")] == ["recycling"]
    assert choose("recycling")[0] in choose("practice")
    assert choose("league")[0] in choose("held-out")
    with pytest.raises(KeyError):
        choose("nothing-of-that-name")


def test_the_table_shows_the_tasks_beside_the_forty_among_their_kinds() -> None:
    scores = [Score(task.name, True, "", "completed", 1, 1, 1, 1.0, "") for task in TASKS]
    report = {"model": "m", **dict.fromkeys(("solved", "total", "run", "steps", "tokens", "seconds"), 100)}
    table = program._table(scores, report)
    assert [list(column._cells) for column in table.columns[:2]] == [list(KINDS), ["8/8"] * 10]


def test_files_are_the_same_every_time() -> None:
    for task in TASKS:
        assert task.files() == task.files(), task.name


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("**1,234.50** EUR", [1234.5]),
        ("1.234,50 or 1234,5", [1234.5, 1234.5]),
        ("$1'234'567.", [1234567]),
        ("12 345", [12345, 12, 345]),
        ("page 9 464,371", [9464.371, 9, 464371]),
        ("(99)", [99]),
        ("−5.2%, 1e3 and 3ms", [-5.2, 1000, 3]),
        (r"\(1{,}234\)", [1234]),
        ("on 2024-03-05 at 10:00, see /results/a7.csv", []),
        ("Q2 of P100", []),
        ("1.234.567", [1234567]),
        ("4, 5 and 6.", [4, 5, 6]),
    ],
)
def test_numbers_are_read_however_they_are_written(text: str, numbers: list[float]) -> None:
    assert numbers_in(text) == numbers


@pytest.mark.parametrize(
    ("check", "answer", "right"),
    [
        (figure(377), "377 nights", True),
        (figure(377), "There are 377.0 nights.", True),
        (figure(377), "There are 3770 nights in 2024.", False),
        (figure(377), "about 377.4", False),
        (figure(12.35), "12.349", True),
        (figure(12.35), "12.4", False),
        (figure(7), " ".join(str(each) for each in range(100)), False),
        (first_named("South", "North"), "**South** had more than North", True),
        (first_named("South", "North"), "North: 3\nSouth: 5\nSo it is South.", True),
        (first_named("South", "North"), "North had more than South", False),
        (first_named("South", "North"), "North has 3. South has 5. The region is South.", True),
        (first_named("South", "North"), "North has the most. South has the fewest.", False),
        (first_named("South", "North"), "Southern", False),
        (first_named(month(2024, 3), month(2024, 5)), "That may have been March 2024.", True),
        (first_named(month(2024, 3), month(2024, 5)), "2024-03, not 2024-05", True),
        (first_named(month(2024, 3), month(2024, 5)), "May, then March", False),
        (on_day("2024-08-09"), "It was August 9th, 2024.", True),
        (on_day("2024-08-09"), "on 9 Aug 2024", True),
        (on_day("2024-08-09"), "on 2024-09-08", False),
    ],
)
def test_wording_is_free_and_the_value_is_not(check: Check, answer: str, right: bool, tmp_path: Path) -> None:
    outcome = Outcome(answer, PlainPython(tmp_path))
    if right:
        check(outcome)
    else:
        with pytest.raises(Unsolved):
            check(outcome)


def test_no_task_shows_in_what_the_agent_is_told() -> None:
    told = [
        *(ROOT / "agent").glob("*_prompt.py"),
        ROOT / "agent" / "worked_examples.yaml",
        *(ROOT / "skills").rglob("*.md"),
    ]
    # However its lines are broken.
    text = " ".join(word for path in told for word in path.read_text().split())
    assert len(told) > 10
    assert [task.name for task in TASKS if " ".join(task.text.split()) in text] == []
