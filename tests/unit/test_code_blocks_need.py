"""Whether words alone can answer a task of which nothing was run."""

from __future__ import annotations

from pathlib import Path

import pytest
from code_loops import bash, looping, outputs, playing, run, said_to_the_model
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from libs.code_blocks.feedback import UNSURE
from libs.code_blocks.need import Need, need_for_code, speaks_of

LISTING = """\
/data/sales.csv (305,154 bytes): 3,505 rows, 6 of them exact repeats of another
- order_date: dates 2023-01-01 to 2024-12-31
- region: text: 'North' 985, 'West' 954
- customerName: text, 24 different, such as 'Vista Travel', 'Union Library'
- value: whole numbers 1 to 9
/data/deliveries.json (77 bytes): object, its 'parcels': list of 2 objects
- address: {street: text ('Elm'), postcode: number}
"""

OF_THE_DATA = {
    "Which region earned most?": "North.",
    "Which region did best, and by how far?": "The North, by 312.50.",
    "Who is our best customer?": "Vista Travel.",
    "Do our sales grow?": "Yes, they do.",
    "Why did sales fall in May?": "There was less demand.",
    "Explain the regions to me.": "There are four.",
    "Did Vista Travel pay?": "Yes.",
    "Which postcode is commonest?": "1200.",
    "When was the last delivery?": "In May.",
    "How many parcels are there?": "Two.",
    "thanks, and which customers are new?": "Three of them.",
}
WORK = {
    "Count the rows of /data/sales.csv.": "There are 3,505.",
    "What is the average of the prices?": "12.5",
    "Draw a plot of it.": "Here it is.",
    "Is workspace/a.py right?": "Yes.",
    "Look at this: " + "x " * 120: "It is good.",
}
CLAIMS = {
    "Fix my parser.": "I have fixed it.",
    "Tidy up.": "Done.",
    "Make it nicer.": "The picture has been saved.",
    "Improve it.": "It is in /results/better.py now.",
    "Do it again.": "I've now checked it all.",
    "Send it.": "It went through successfully.",
}
UNSURE_TASKS = {
    "What is the capital of France?": "Paris, with 2,100,000 people.",
    "Who wrote Hamlet?": "Hamlet was written by Shakespeare in 1600.",
    "How many legs has a spider?": "8",
    "Is 8,191 prime?": "Yes.",
    "What time is it?": "12:00",
    "Which Python is here?": "Python 3.11.",
    "Who is our best customer?": "Vista Travel.",
    "Which region earned most?": "North.",
}
TALK = {
    "Hello!": "Hello! What can I do?",
    "hi there": "Hello!",
    "Thank you very much, great work!": "You are welcome: there were 3,505.",
    "What can you do?": "I can compute 100 things.",
    "go": "understood",
    "Never mind.": "As you like.",
    "What is a median?": "The one in the middle: of 10, 20 and 90 it is 20.",
    "What’s the difference between a list and a tuple?": "A tuple cannot be changed.",
    "How do I read a CSV file in pandas?": "With read_csv.",
    "Why is the sky blue?": "Short waves of light are scattered most.",
    "Tell me a joke.": "Two bytes meet.",
}


@pytest.mark.parametrize(("task", "reply"), OF_THE_DATA.items(), ids=OF_THE_DATA)
def test_a_question_about_the_files_there_are_needs_code(task: str, reply: str) -> None:
    assert speaks_of(task, LISTING)
    assert need_for_code(task, reply, about_data=True) is Need.SURE


@pytest.mark.parametrize(("task", "reply"), (WORK | CLAIMS).items(), ids=WORK | CLAIMS)
def test_work_and_claims_need_code(task: str, reply: str) -> None:
    assert need_for_code(task, reply) is Need.SURE


@pytest.mark.parametrize(("task", "reply"), UNSURE_TASKS.items(), ids=UNSURE_TASKS)
def test_where_words_do_not_tell_the_model_is_to(task: str, reply: str) -> None:
    assert need_for_code(task, reply) is Need.PERHAPS


@pytest.mark.parametrize(("task", "reply"), TALK.items(), ids=TALK)
def test_talk_and_explanations_need_none(task: str, reply: str) -> None:
    assert not speaks_of(task, LISTING)
    assert need_for_code(task, reply) is Need.NONE


@pytest.mark.parametrize(
    "task",
    [
        "What is the capital of France?",
        "What is the value of a good name?",
        "On which day is Easter?",
        "",
        "data",
    ],
)
def test_a_word_of_all_sorts_is_none_of_the_data(task: str) -> None:
    assert not speaks_of(task, LISTING)
    assert not speaks_of(task, "")


def test_what_was_printed_before_may_be_said_again_and_nothing_else() -> None:
    earlier = "The bash block succeeded: North 37,900.52, West 812; saved as /results/a.png"
    for reply in ("North, with 37900.52.", "The report says: North leads.", "It is /results/a.png."):
        assert need_for_code("Summarize the report.", reply, earlier=earlier) is Need.PERHAPS
    for reply in ("It was 912.", "I have saved it as /results/b.png."):
        assert need_for_code("Summarize the report.", reply, earlier=earlier) is Need.SURE
    assert need_for_code("Thanks!", "It is in /results/a.png.", earlier=earlier) is Need.NONE


def test_a_guess_about_the_data_is_never_the_answer(tmp_path: Path) -> None:
    question = "Which region earned most?"
    guessed = run(tmp_path / "1", *["North."] * 4, task=question, data=LISTING)
    assert (guessed["status"], guessed["executions"]) == ("no_execution", [])
    computed = run(tmp_path / "2", "North.", bash("echo West"), "West.", task=question, data=LISTING)
    assert (computed["status"], outputs(computed)) == ("completed", ["West"])


def test_the_model_is_asked_once_whether_it_has_guessed(tmp_path: Path) -> None:
    question = "What is the capital of France?"
    kept = run(tmp_path / "1", "Paris.", "Paris it is.", task=question)
    assert (kept["status"], kept["messages"][-1].text) == ("completed", "Paris it is.")
    assert said_to_the_model(kept) == [UNSURE]
    ran = run(tmp_path / "2", "12:00", bash("echo 17:45"), "17:45", task="What time is it?")
    assert (ran["status"], outputs(ran)) == ("completed", ["17:45"])
    other = run(
        tmp_path / "3", "", "Paris.", "Paris.", task=question
    )  # another request takes nothing from it
    assert (other["status"], said_to_the_model(other)[1:]) == ("completed", [UNSURE])


def test_a_later_task_is_answered_from_what_is_known(tmp_path: Path) -> None:

    model = playing(
        bash("echo 3505"), "3,505 rows.", "Rows: 3,505.", "Rows: 3,505.", "4,000", "4,000", "4,000", "4,000"
    )
    with looping(tmp_path, model, checkpointer=InMemorySaver()) as graph:
        config = {"configurable": {"thread_id": "1"}}
        for task, status in (
            ("Count the rows of /data/sales.csv.", "completed"),
            ("Summarize that in a report.", "completed"),
            ("And count those of a.csv.", "no_execution"),
        ):
            result = graph.invoke({"messages": [HumanMessage(task)]}, config)  # type: ignore[call-overload]
            assert result["status"] == status, task
