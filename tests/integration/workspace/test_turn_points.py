"""The turns of a thread, and going back to them several times."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from agent.run import Point, ThreadGone, ThreadPoints, WrongPoint, open_runtime, turn_points
from agent.run.runtime import Runtime
from agent.server.json_exchange import Refused
from agent.server.routes.turn_requests import refusing
from libs.persistence.lineage import lineage
from tests.integration.workspace.counted_turns import content, place, turn

pytestmark = pytest.mark.docker

THREAD: Any = {"configurable": {"thread_id": "t"}}


@pytest.fixture
async def runtime(counting_model: None) -> AsyncIterator[Runtime]:
    async with open_runtime(sandbox_scope="thread", sandbox_warm=0) as made:
        yield made


async def turns(points: ThreadPoints) -> list[str]:
    return [point.words for point in await points.points()][1:]


async def notes(points: ThreadPoints) -> int:
    """Return how often the model is told that the person has gone back."""
    messages = (await points.graph.aget_state(THREAD)).values["messages"]
    return sum("has taken this conversation" in message.text for message in messages)


async def test_each_undo_takes_back_one_return(runtime: Runtime) -> None:
    for words in ("first", "second", "third"):
        await turn(runtime, words)
    points = await runtime.points("t")
    await points.go_to(2)
    place().write_text("of a person")
    await points.go_to(1)
    await points.go_to(1)
    assert (content(), await turns(points), await notes(points)) == ("1\n", ["first"], 1)
    await points.undo()
    await points.undo()
    assert (content(), await turns(points)) == ("of a person", ["first", "second"])
    await points.undo()
    assert (content(), await turns(points)) == ("1\n2\n3\n", ["first", "second", "third"])
    with pytest.raises(WrongPoint, match="nothing to undo"):
        await points.undo()


async def test_turn_begins_with_a_message_that_was_added_to_the_state(runtime: Runtime) -> None:
    """As Studio does when a person edits a message there."""
    for words in ("first", "second"):
        await turn(runtime, words)
    points = await runtime.points("t")
    end = [point for point in await points.points() if point.number == 1]
    at: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": end[0].checkpoint}}
    message = {"messages": [HumanMessage("second, edited")]}
    await points.graph.aupdate_state(at, message, as_node="__start__")
    await (await runtime.run("t")).graph.ainvoke(None, THREAD)
    assert await turns(points) == ["first", "second, edited"]
    assert content() == "1\n2\n"
    await points.go_to(1)
    assert (content(), await turns(points)) == ("1\n", ["first"])


async def test_turns_tell_their_times_and_changes(runtime: Runtime) -> None:
    for words in ("first", "second"):
        await turn(runtime, words)
    points = await runtime.points("t")

    def told(point: Point) -> tuple[str, object]:
        return point.at, point.changed and point.changed.difference.parts

    before = [told(point) for point in await points.points()]
    assert [parts for _, parts in before][1:] == [(("/results/a",), (), ()), ((), ("/results/a",), ())]
    await points.go_to(1)
    assert [told(point) for point in await points.points()] == before[:2], "a return is no part of a turn"


async def test_files_stay_while_a_call_that_has_run_waits_for_a_decision(counting_model: None) -> None:
    async with open_runtime(
        sandbox_scope="thread", sandbox_warm=0, approvals="effects", effects_free="/data/**"
    ) as runtime:
        await turn(runtime, "first")
        points = await runtime.points("t")
        with pytest.raises(WrongPoint, match="waits for your decision"):
            await points.go_to(0, files_only=True)
        assert content() == "1\n"
        await points.go_to(0)
        assert content() == ""


async def test_thread_deleted_while_its_turns_are_read_is_not_found(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    await turn(runtime, "first")
    points = await runtime.points("t")
    line = await lineage(runtime.threads, "t")

    async def read_before(*_: object) -> object:
        return line

    await runtime.threads.adelete_thread("t")
    monkeypatch.setattr(turn_points, "lineage", read_before)
    for read in (points.points, points.last, points.present):
        with pytest.raises(ThreadGone):
            await read()
    with pytest.raises(Refused, match="was deleted meanwhile") as refused:
        async with refusing():
            await points.points()
    assert refused.value.status == 404
