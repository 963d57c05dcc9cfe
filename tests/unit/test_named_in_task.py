"""What a small model is told of the columns and values that its task names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config import load_settings
from agent.named_in_task import named_in
from agent.small_prompt import opening

BOATS = """\
/data/boats.csv (100 bytes): 6 rows
- colour: text: 'red' 2, 'Dark Blue' 2, 'in' 2
- port: text, 40 different, such as 'DK', 'Bergen', '12'
- deckLength: whole numbers 3 to 9
- sold_on: dates 2024-01-01 to 2024-05-01
- prices: numbers 1 to 2
  read with: load("/data/boats.csv")"""


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("What is the price of a Red boat in /data/boats.csv?", "The task names colour 'red'; prices."),
        ("Which dark blue boats went to DK?", "The task names colour 'Dark Blue'; port 'DK'."),
        ("Sum up the deck lengths by colour", "The task names colour; deckLength."),
        ("Which was sold on a Monday, and to which ports?", "The task names port; sold_on."),
        ("Was it dk or 12? Which was reddish, in /data/red/prices.csv?", ""),
        ("Hello", ""),
    ],
)  # fmt: skip
def test_columns_and_values_that_a_task_names(task: str, said: str) -> None:
    assert named_in(task, BOATS) == said


def test_without_a_listing_nothing_is_named() -> None:
    assert named_in("Which red boat is the dearest?", "") == ""


def test_it_stands_below_the_listing_before_the_task_as_in_the_examples() -> None:
    messages = opening("Which red boat has the highest price?", load_settings(None), skills="", data=BOATS)
    assert messages[-1].text.endswith("```\nThe task names colour 'red'; prices.")
    shown = [message.text for message in messages[1:-1:4]]
    assert sum("\n```\nThe task names " in text for text in shown) > len(shown) / 2


@given(st.text(), st.text())
def test_any_text_can_be_looked_at(task: str, listing: str) -> None:
    assert "\n" not in named_in(task, f"- {listing}: {task}").strip()


def test_several_questions_are_listed_before_the_task_as_in_the_examples() -> None:
    task = "Which red boat is the dearest, and how many are there?"
    messages = opening(task, load_settings(None), skills="", data=BOATS)
    asked = "Print what answers each of these:\n1. Which red boat is the dearest\n2. how many are there?"
    assert messages[-1].text.endswith(asked)
    assert sum("Print what answers each of these:\n1. " in message.text for message in messages[1:-1:4]) > 0
    assert opening(task, load_settings(None), skills="", data="")[-1].text == asked
    assert opening("Hello", load_settings(None), skills="", data="")[-1].type == "ai"
