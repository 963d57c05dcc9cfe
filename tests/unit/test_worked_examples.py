"""Which worked examples a task finds, and that each can be shown as a turn."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.worked_examples import EXAMPLES, _all, _ranked, chosen, nearest
from libs.code_blocks import read_reply
from libs.code_blocks.reply_end import first_block

EVERY = nearest("", 1_000)


def test_each_can_be_shown() -> None:
    assert len(EVERY) > 40
    assert len({example.name for example in EVERY}) == len(EVERY)
    for example in EVERY:
        [block] = read_reply(example.reply).blocks
        compile(block.code, example.name, "exec")
        assert first_block(example.reply) == len(example.reply)
        assert not read_reply(example.answer).blocks
        assert bool(example.listing) == bool(example.files)
        assert example.output
        shown = f"{example.listing}{example.task}{example.reply}{example.output}{example.answer}"
        assert not re.search("tool.?use|function.?call|tool.?call", shown, re.IGNORECASE)


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("On which weekday were the most parcels sent?", "by-weekday"),
        ("Which staff in a.csv are not in b.csv?", "without-partner"),
        ("How many lines of level WARN do the log and its older parts hold?", "several-logs"),
        ("Write a program that takes a year as its argument and prints a word", "program-with-argument"),
        ("What is the sum of all primes up to 100?", "compute"),
        ("On which page of the PDF is the warranty?", "find-in-pdf"),
        ("Draw a histogram of the ages", "histogram"),
        ("Save one file per team in /results/teams", "one-file-each"),
        ("What percentage of the turnover comes from the five largest customers?", "share-of-largest"),
        ("Convert the payments to EUR with the rate of their month", "two-keys"),
    ],
)  # fmt: skip
def test_a_task_finds_its_like(task: str, name: str) -> None:
    assert name in [example.name for example in nearest(task, 3)]


def test_the_nearest_comes_last() -> None:
    words = EVERY[7].task
    assert nearest(words, 4)[-1] == EVERY[7]


@given(st.text(), st.integers(1, 6))
def test_any_text_finds_as_many_as_are_wanted(task: str, count: int) -> None:
    found = nearest(task, count)
    assert len({example.name for example in found}) == count


def test_without_likeness_the_first_are_of_tables() -> None:
    of_tables = (EXAMPLES / "tables.yaml").read_text()
    assert all(f"name: {example.name}\n" in of_tables for example in nearest("xyzzy", 4))


def test_a_long_task_is_found_in_time() -> None:
    assert nearest("weekday " + " ".join(f"w{n}" for n in range(100_000)), 1)[0].name == "by-weekday"


def listing(*files: str, columns: str = "") -> str:
    return "\n".join(f"{file} (90 bytes): 6 rows\n{columns}" for file in files)


def place(name: str, task: str, data: str) -> int:
    """How many examples are nearer to a task."""
    return [example.name for example in reversed(nearest(task, 1_000, listing=data))].index(name)


def test_words_of_the_subject_find_no_example() -> None:
    """One has cheese in a PDF file."""
    task = "What does the cheese from the farm with the name Alm cost?"
    data = listing("/data/a.pdf", columns="- cheese: text: 'Brie' 3\n- farm: text: 'Alm' 6")
    assert place("pdf-table-to-csv", task, "") == 0
    assert place("pdf-table-to-csv", task, data) > 3


@pytest.mark.parametrize(
    ("name", "like", "unlike"),
    [
        ("busiest-minute", listing("/data/a.log"), listing("/data/a.csv")),
        ("two-files", listing("/data/a.csv", "/data/b.csv"), listing("/data/a.csv")),
        ("tree", listing("/data/a.json"), listing("/data/a.json.gz", "/data/b.json.1")),
        ("one-month", listing("/data/a.csv", columns="- d: dates 2024-01-01 to"), listing("/data/a.csv")),
    ],
)
def test_an_example_of_another_kind_counts_less(name: str, like: str, unlike: str) -> None:
    [example] = (each for each in EVERY if each.name == name)
    near, far = (_likeness(name, example.task, data) for data in (like, unlike))
    assert far < near


def _likeness(name: str, task: str, data: str) -> float:
    return next(score for number, score in _ranked(task, data).items() if _all()[number].name == name)


def test_an_example_that_makes_a_file_counts_less_where_none_is_asked_for() -> None:
    task = "The minutes of the calls in each month, oldest first"
    asked, not_asked = (_likeness("table-by-month", f"{verb} {task}", "") for verb in ("Write", "Tell"))
    assert not_asked < asked


def test_none_is_shown_that_is_far_behind_the_nearest() -> None:
    sharp = "How many lines of level WARN do the log and its older parts, app.log.1 and app.log.2.gz, hold?"
    assert len(chosen(sharp, 4)) < 4
    assert chosen(sharp, 4) == nearest(sharp, 4)[-len(chosen(sharp, 4)) :]
    assert len(chosen("xyzzy", 4)) == 2
    assert len(chosen("Which is the most, the sum, the mean, the day, the number of rows?", 4)) == 4
