"""Figures of an answer that nothing has printed, and tasks that ask for more than one thing."""

from __future__ import annotations

from pathlib import Path

import pytest
from code_loops import TASK, python, run, said_to_the_model
from hypothesis import given
from hypothesis import strategies as st

from libs.code_blocks.grounds import uncounted, unfounded
from libs.code_blocks.parts import parts_of

PRINTED = "Jo 1234.5678\nshare 0.12345\nday 2023-10-01\nbig 1,250,300\nrows 91\n"


@pytest.mark.parametrize(
    ("answer", "unknown"),
    [
        ("It was 2024-10-01.", ["2024-10-01"]),
        ("It was on 2023-10-01.", []),
        ("Jo has 1234.57, or 1,234.6, or 1235.", []),
        ("Jo has 1234.75.", ["1234.75"]),
        ("That is 12.35 %, 12.3 % or 12 %.", []),
        ("1250300 or 1,250,300.00", []),
        ("About 1.25 million.", ["1.25"]),
        ("There are 91 nights, 7 of them cold.", []),
        ("There are 191.", ["191"]),
        ("See /results/2024-10-01/plan_4711.png, `x = 8888` and F0717.", []),
        ("1. Jo\n100. Mo", []),
        ("The year 2023", []),
    ],
)
def test_what_an_answer_says_that_nobody_printed(answer: str, unknown: list[str]) -> None:
    assert unfounded(answer, ["Which day of 2023?", PRINTED]) == unknown


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        ("There are 14.57 that lasted longer than 14 days, and the longest lasted 63.", 1),
        ("The longest lasted 63 days.", 1),
        ("There are 32, and the longest lasted 63 days.", 0),
        ("32 lasted longer than 14 days; the longest 63.", 0),
        ("None of them. The longest lasted 9 days.", 0),
        ("There are 1,250. The longest: 63.", 0),
        ("See /results/7.csv and 2024-10-01 for F071.", 1),
    ],
)
def test_an_answer_has_a_whole_number_for_each_how_many(answer: str, asked: int) -> None:
    parts = ["How many lasted longer than 14 days", "how many days did the longest last?"]
    assert len(uncounted(answer, parts)) == 2 * asked


def test_only_counts_are_whole_numbers() -> None:
    parts = ["How many kg are that", "how many days do they last on average?", "Which is the longest"]
    assert uncounted("It is 1.5.", parts) == []


@given(st.floats(0.01, 1e9, allow_nan=False), st.integers(0, 4))
def test_a_number_that_is_rounded_is_founded(value: float, decimals: int) -> None:
    assert unfounded(f"It is {value:,.{decimals}f}.", [f"value {value!r}"]) == []


@given(st.text(), st.text())
def test_any_text_can_be_looked_at(answer: str, seen: str) -> None:
    assert unfounded(answer, [seen, answer]) == []
    parts_of(answer)


@pytest.mark.parametrize(
    ("task", "parts"),
    [
        ("Which is the oldest, and how old is it?", ["Which is the oldest", "how old is it?"]),
        (
            "Who came first? And how many came after 10? Two decimals.",
            ["Who came first?", "And how many came after 10?"],
        ),
        (
            "There are some files. How many are there in all, and in the file of which day the most?",
            ["How many are there in all", "in the file of which day the most?"],
        ),
        ("/data/a.csv: what is the mean, and how many are they?", ["what is the mean", "how many are they?"]),
        ("Which shop sells bread and butter?", []),
        ("Who is the baker, who sells the most?", []),
        ("Name the town in which he lived and when.", []),
        ("Write a program that says which day it is and when it ends.", []),
        ("", []),
    ],
)
def test_what_a_task_asks_for_one_by_one(task: str, parts: list[str]) -> None:
    assert parts_of(task) == parts


def test_a_figure_that_was_never_printed_is_questioned_once(tmp_path: Path) -> None:
    replies = [python("print('first', '2023-10-01')"), "It was 2024-10-01.", "It was 2024-10-01, I say."]
    result = run(tmp_path, *replies, guided=True)
    _, asked = said_to_the_model(result)
    assert asked.startswith("2024-10-01: no code has printed that.")
    assert (result["status"], result["messages"][-1].text) == ("completed", replies[-1])


def test_a_count_that_is_not_in_the_answer_is_asked_for_once(tmp_path: Path) -> None:
    task = "How many rows of /data/a.csv are above 3, and which is the largest?"
    replies = [python("print('largest', 'K7')"), "The largest is K7.", "Some, and K7."]
    result = run(tmp_path, *replies, guided=True, task=task)
    _, asked = said_to_the_model(result)
    assert asked.startswith("The answer has no whole number for this:\n1. How many rows")
    assert result["messages"][-1].text == replies[-1]


@pytest.mark.parametrize(("guided", "answer"), [(True, "It was 2023-10-01."), (False, "It was 2024-10-01.")])
def test_what_was_printed_is_not_questioned_nor_is_a_large_model(
    tmp_path: Path, guided: bool, answer: str
) -> None:
    result = run(tmp_path, python("print('first', '2023-10-01')"), answer, guided=guided, task=TASK)
    assert len(said_to_the_model(result)) == 1
    assert result["messages"][-1].text == answer
