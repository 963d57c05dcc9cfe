"""Which worked examples a task finds, and that each can be shown as a turn."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.worked_examples import EXAMPLES, nearest
from libs.code_blocks import read_reply
from libs.code_blocks.feedback import first_block

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
