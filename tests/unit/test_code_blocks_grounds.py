"""Figures of an answer that nothing has printed, and tasks that ask for more than one thing."""

from __future__ import annotations

from pathlib import Path

import pytest
from code_loops import TASK, InTurn, looping, playing, python, run, said_to_the_model
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from libs.code_blocks.grounds import uncounted, unfounded
from libs.code_blocks.parts import parts_of, questions_of

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
    assert bool(uncounted(answer, parts)) == asked


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        ("There are 12 cats in the north.", "how many dogs are there?"),
        ("There are 7 dogs.", "How many cats live in the north"),
        ("There are some.", "How many cats live in the north"),
    ],
)
def test_the_count_that_an_answer_does_not_speak_of_is_missed(answer: str, missing: str) -> None:
    assert uncounted(answer, ["How many cats live in the north", "how many dogs are there?"])[0] == missing


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


@pytest.mark.parametrize(
    ("task", "questions"),
    [
        (
            "Which shop sold the most in May, and how many shops sold less than 20 crates?",
            ["Which shop sold the most in May", "how many shops sold less than 20 crates?"],
        ),
        ("Which shop sold the most in May, and how much?", []),
        ("Plot the crates of each month. Which month had the most, and how many?", []),
        ("Draw a line of the crates. How many were sold in all?", []),
        ("", []),
    ],
)
def test_questions_that_can_stand_alone(task: str, questions: list[str]) -> None:
    assert questions_of(task) == questions


TWO = "Which shop sold the most in May, and how many shops sold less than 20 crates?"
SECOND = "print its answer with a label: how many shops sold less than 20 crates?"


def test_a_second_question_is_put_by_itself_and_both_are_answered_in_the_end(tmp_path: Path) -> None:
    replies = [
        python("print('most:', 'Elm')"),
        python("print('less than 20:', 7)"),
        "Elm sold the most, and 7 shops sold less than 20 crates.",
    ]
    result = run(tmp_path, *replies, guided=True, task=TWO)
    first, second = said_to_the_model(result)
    assert first.endswith(SECOND)
    assert second.endswith(
        "printed:\n1. Which shop sold the most in May\n2. how many shops sold less than 20 crates?\n"
        "Printed before: most: Elm"
    )
    assert (result["status"], result["messages"][-1].text) == ("completed", replies[-1])


def test_a_question_that_is_answered_without_code_is_put_once_more(tmp_path: Path) -> None:
    printed = python("print('most:', 'Elm', 'others:', 7)")
    replies = [printed, "7 shops did.", "Yes, 7 shops.", "Elm sold most; 7 shops did."]
    result = run(tmp_path, *replies, guided=True, task=TWO)
    first, second, third = said_to_the_model(result)
    assert first.endswith(SECOND)
    assert second.endswith(SECOND)
    assert third.startswith("Now answer the whole task in words")
    assert (result["status"], result["messages"][-1].text) == ("completed", replies[-1])


def test_where_only_code_can_be_the_reply_it_is_begun_for_the_model(tmp_path: Path) -> None:
    begun = "```python\n"
    replies = [python("print('most:', 'Elm')"), "7.", python("print('less:', 7)"), "Elm, and 7."]
    model = playing(*replies, model=InTurn)
    with looping(tmp_path, model, guided=True, code_begins=begun) as graph:
        graph.invoke({"messages": [HumanMessage(TWO)]})
    last = [(request[-1].type, request[-1].text == begun) for request, _ in model._requests]
    assert last == [("human", False), ("ai", True), ("ai", True), ("human", False)]


def test_many_questions_never_end_a_run(tmp_path: Path) -> None:
    task = (
        "How many shops are there in May? How many shops are there in June? How many shops are there in July?"
    )
    result = run(tmp_path, python("print(7, 8, 9)"), *["7, 8 and 9 shops."] * 9, guided=True, task=task)
    assert result["status"] == "completed"


def test_a_count_that_is_asked_for_first_is_put_by_itself_too(tmp_path: Path) -> None:
    task = "How many shops sold less than 20 crates, and which shop sold the most in May?"
    replies = [python(f"print({number})") for number in (1, 2, 3)]
    result = run(tmp_path, *replies, "7 shops, and Elm.", guided=True, task=task)
    first, second, third = said_to_the_model(result)
    assert first.endswith("with a label: How many shops sold less than 20 crates")
    assert second.endswith("with a label: which shop sold the most in May?")
    assert third.endswith("Printed before: 1; 2")


@pytest.mark.parametrize(
    ("printed", "put"),
    [
        ("print('most:', 'Elm'); print('less than 20 crates:', 7)", []),
        ("print('most:', 'Elm'); print('number:', 7)", []),
        ("print('most: Elm'); print(7)", ["how many shops"]),
        ("print('most: Elm'); print('shop: 7')", ["how many shops"]),
        ("print('9 most: Elm'); print('crates: 7')", []),
        ("print({'Elm': 7})", ["Which shop sold", "how many shops"]),
        (
            "print('/data/a.csv: 3 rows, 2 columns'); print('number: sold 1 to 3'); print('most:', 'Elm')",
            ["how many shops"],
        ),
    ],
)
def test_a_question_that_a_label_speaks_of_is_not_put(tmp_path: Path, printed: str, put: list[str]) -> None:
    replies = [python(printed), *(python(f"print({number})") for number in range(len(put))), "Elm, and 7."]
    result = run(tmp_path, *replies, guided=True, task=TWO)
    asked = [said.partition("with a label: ")[2] for said in said_to_the_model(result)]
    assert [question[: len(each)] for question, each in zip(filter(None, asked), put, strict=True)] == put
    assert ("Now answer the whole task" in said_to_the_model(result)[-1]) == bool(put)


def test_a_question_is_put_when_code_has_gone_well(tmp_path: Path) -> None:
    replies = [python("1 / 0"), python("print('most:', 'Elm')"), python("print('less:', 7)"), "Elm, and 7."]
    result = run(tmp_path, *replies, guided=True, task=TWO)
    failed, first, second = said_to_the_model(result)
    assert "ZeroDivisionError" in failed
    assert "with a label" not in failed
    assert first.endswith(SECOND)
    assert second.startswith("The python block succeeded")


def test_a_large_model_is_asked_nothing_by_and_by(tmp_path: Path) -> None:
    result = run(tmp_path, python("print('most:', 'Elm')"), "Elm, and 7.", task=TWO)
    assert len(said_to_the_model(result)) == 1
    assert SECOND not in said_to_the_model(result)[0]


def test_an_answer_after_an_empty_result_is_questioned_once(tmp_path: Path) -> None:
    empty = python("print([])")
    replies = [empty, "The condition is wrong.", python("print('rows:', 3)"), "There are 3."]
    result = run(tmp_path, *replies, guided=True)
    assert said_to_the_model(result)[1].startswith("The last result was empty, and no code has run since.")
    assert result["messages"][-1].text == replies[-1]
    result = run(tmp_path, empty, "There is no such row.", guided=True)
    assert len(said_to_the_model(result)) == 1


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
    assert asked.startswith("The answer lacks a whole number that is asked for.\n\nNow write the code")
    assert asked.endswith(": How many rows of /data/a.csv are above 3")
    assert result["messages"][-1].text == replies[-1]


@pytest.mark.parametrize(("guided", "answer"), [(True, "It was 2023-10-01."), (False, "It was 2024-10-01.")])
def test_what_was_printed_is_not_questioned_nor_is_a_large_model(
    tmp_path: Path, guided: bool, answer: str
) -> None:
    result = run(tmp_path, python("print('first', '2023-10-01')"), answer, guided=guided, task=TASK)
    assert len(said_to_the_model(result)) == 1
    assert result["messages"][-1].text == answer
