"""Replies that say the same over and over: noticed in any period, never in what programs hold."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from code_loops import TASK, InTurn, bash, looping, outputs, playing, said_to_the_model
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from libs.code_blocks.feedback import RUNS_ON
from libs.code_blocks.repetition import MIN_CHARS, MIN_TIMES, repeats_from, runs_on_from


@given(
    st.text(max_size=2_000),
    st.text(min_size=1, max_size=MIN_CHARS // MIN_TIMES),
    st.integers(0, 40),
)
def test_whatever_is_said_again_and_again_is_noticed(before: str, said: str, more: int) -> None:
    again = said * (2 * MIN_CHARS // len(said) + more)
    start = repeats_from(before + again)
    assert start is not None
    # What is kept has it once, and ends before it has it three times; what is dropped is that and no more.
    assert start <= len(before) + 2 * len(said)
    dropped = (before + again)[start:]
    periods = range(1, MIN_CHARS // MIN_TIMES + 1)
    assert any(dropped[period:] == dropped[:-period] for period in periods)


def test_a_line_without_end_runs_on() -> None:
    counting = "```python\nfor n in [" + ", ".join(f'("{n}", "{n:b}")' for n in range(100))
    start = runs_on_from(counting)
    assert start is not None
    assert len("```python\n") < start < 400
    assert runs_on_from("x = 1\n" * 20 + "y = " + "".join(map(str, range(240)))) is None
    assert runs_on_from(", ".join(map(str, range(300))) + "\nprint(1)") is None  # it went on


@pytest.mark.parametrize(
    "text",
    [
        "",
        "word " * 10,
        "-" * 500,
        ", ".join(str(number) for number in range(1_000)),
        "\n".join(f"row {number}: 0.0, 0.0, 0.0, 0.0" for number in range(100)),
        "def f(x):\n    return x\n\n" + "\n".join(f"print(f({n}))" for n in range(200)),
        "\n".join(f"plt.plot([{n}, {n + 1}], [0, 1])" for n in range(90)),
    ],
)
def test_what_only_resembles_it_is_not(text: str) -> None:
    assert repeats_from(text) is None


def test_a_guided_model_that_runs_on_is_stopped_and_asked_once_more(tmp_path: Path) -> None:
    endless = "I try.\n```bash\necho " + "[]{}, " * 400
    model = playing(endless, bash("echo 7"), "It is 7.", model=InTurn)
    with looping(tmp_path, model, guided=True) as graph:
        result = asyncio.run(graph.ainvoke({"messages": [HumanMessage(TASK)]}))
    assert (result["status"], outputs(result)) == ("completed", ["7"])
    assert said_to_the_model(result)[0] == RUNS_ON
    # What ran on is neither kept whole nor sent again.
    assert result["messages"][1].text.count("[]{}") < 4
    assert all("[]{}" not in message.text for message in model._requests[1][0])


def test_one_that_runs_on_for_ever_ends_with_its_status(tmp_path: Path) -> None:
    with looping(tmp_path, playing(*["yes, " * 400] * 9, model=InTurn), guided=True) as graph:
        result = asyncio.run(graph.ainvoke({"messages": [HumanMessage(TASK)]}))
    assert result["status"] == "no_execution"
    assert said_to_the_model(result) == [RUNS_ON] * 3
    assert "no code was run, though I was asked for it 3 times" in result["messages"][-1].text


def test_other_models_may_write_what_they_like(tmp_path: Path) -> None:
    long = bash("echo " + "x" * 2_000 + " | wc -c")
    with looping(tmp_path, playing(long, "It is 2001.")) as graph:
        result = asyncio.run(graph.ainvoke({"messages": [HumanMessage(TASK)]}))
    assert outputs(result) == ["2001"]
