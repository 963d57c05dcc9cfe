"""The checks of the tasks in tests/eval accept right results and refuse wrong ones."""

from __future__ import annotations

import hashlib
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.eval.checks import figure, first_named, month, numbers_in, on_day
from tests.eval.reference import in_folder, play
from tests.eval.task import Check, Outcome, Task, Unsolved
from tests.eval.tasks import SUBSETS

ROOT = Path(__file__).parents[3]
TASKS = [task for tasks in SUBSETS.values() for task in tasks]


@pytest.mark.parametrize("task", [task for task in TASKS if task.reference], ids=lambda task: task.name)
def test_reference_solution_passes_and_a_mistaken_one_does_not(task: Task, tmp_path: Path) -> None:
    task.check(play(task, task.reference, tmp_path / "right"))
    right, wrong = task.mistake
    assert right in task.reference
    with pytest.raises(Unsolved):
        task.check(play(task, task.reference.replace(right, wrong), tmp_path / "wrong"))


def test_data_of_the_tasks_is_unchanged() -> None:
    """The expected answers were computed from these data."""
    digest = hashlib.sha256()
    for task in TASKS:
        for name, content in sorted(task.files().items()):
            digest.update(f"{task.name} {name} {len(content)}\n".encode() + content)
    assert digest.hexdigest() == "31dfe0cc0607905565f89c7ac2352ad2833ba0cc42260d995b060e0ede4e1456"


def test_task_text_is_not_accepted_as_an_answer(tmp_path: Path) -> None:
    for task in TASKS:
        for answer in (task.text, "", "Done: the answer is in the output above."):
            with pytest.raises(Unsolved):
                task.check(Outcome(answer, in_folder(tmp_path)))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("**1,234.50** EUR", [1234.5]),
        ("1.234,50 or 1234,5", [1234.5, 1234.5]),
        ("page 9 464,371", [9464.371, 9, 464371]),
        (r"−5.2%, 1e3, 3ms and \(1{,}234\)", [-5.2, 1000, 3, 1234]),
        ("on 2024-03-05 at 10:00, see /results/a7.csv", []),
    ],
)
def test_numbers_are_read_in_any_notation(text: str, numbers: list[float]) -> None:
    assert numbers_in(text) == numbers


@pytest.mark.parametrize(
    ("check", "answer", "right"),
    [
        (figure(377), "377 nights", True),
        (figure(377), "There are 3770 nights in 2024.", False),
        (figure(12.35), "12.4", False),
        (figure(7), " ".join(str(each) for each in range(100)), False),
        (first_named("South", "North"), "North had more than South", False),
        (first_named("South", "North"), "North has 3. South has 5. The region is South.", True),
        (first_named(month(2024, 3), month(2024, 5)), "That may have been March 2024.", True),
        (first_named(month(2024, 3), month(2024, 5)), "2024-03, not 2024-05", True),
        (first_named(month(2024, 3), month(2024, 5)), "May, then March", False),
        (on_day("2024-08-09"), "It was August 9th, 2024.", True),
        (on_day("2024-08-09"), "on 2024-09-08", False),
    ],
)
def test_check_accepts_any_wording_of_the_right_value(
    check: Check, answer: str, right: bool, tmp_path: Path
) -> None:
    outcome = Outcome(answer, in_folder(tmp_path))
    with nullcontext() if right else pytest.raises(Unsolved):
        check(outcome)


def test_no_prompt_or_skill_contains_a_task() -> None:
    sources = [
        ROOT / "agent" / "prompt.py",
        *(ROOT / "agent" / "prompts").iterdir(),
        *(ROOT / "skills").rglob("*.md"),
    ]
    # Compare without line breaks.
    text = " ".join(word for path in sources if path.is_file() for word in path.read_text().split())
    assert len(sources) > 10
    assert [task.name for task in TASKS if " ".join(task.text.split()) in text] == []
