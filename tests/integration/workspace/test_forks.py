"""Copies of a thread at a point, each with its own conversation and files."""

from __future__ import annotations

import asyncio
import os

import pytest

from agent.run import WrongPoint, open_runtime
from tests.integration.workspace.counted_turns import content, place, turn

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("counting_model")]

COPIES = 20


@pytest.mark.thorough
async def test_copies_made_at_once_have_the_files_of_their_points() -> None:
    async with open_runtime(sandbox_scope="thread", sandbox_warm=0) as runtime:
        for words in ("first", "second"):
            await turn(runtime, words)
        await (await runtime.points("t")).points()  # waits for the capture after the last step
        place().write_text("of a person")
        points = {f"copy-{number}": (0, 1, 2, None)[number % 4] for number in range(COPIES)}
        made = [runtime.fork("t", at, copy=copy) for copy, at in points.items()]
        moved = await asyncio.gather(*made)
        assert {each.instead for each in moved} == {None}
        expected = {0: "", 1: "1\n", 2: "1\n2\n", None: "of a person"}
        for copy, at in points.items():
            assert content(copy) == expected[at], copy
        assert content() == "of a person"

        await turn(runtime, "second, again", thread="copy-1")
        assert content("copy-1") == "1\n2\n"
        assert content("copy-5") == "1\n", "other copies stay as they are"
        words = [point.words for point in await (await runtime.points("copy-1")).points()]
        assert words == ["", "first", "second, again"]


async def test_copy_names_what_it_lacks() -> None:
    async with open_runtime(sandbox_scope="thread", sandbox_warm=0) as runtime:
        await turn(runtime, "first")
        assert (await runtime.fork("t", 1, copy="whole")).copy_note is None
        os.mkfifo(place().with_name("pipe"))
        moved = await runtime.fork("t", copy="copy")
        assert moved.copy_note == "the copy lacks /results/pipe (its earlier content was not kept: a FIFO)"


async def test_common_workspace_and_unknown_points_are_refused() -> None:
    async with open_runtime(sandbox_scope="shared") as runtime:
        await turn(runtime, "first")
        with pytest.raises(WrongPoint, match="SANDBOX_SCOPE=thread"):
            await runtime.fork("t", 1, copy="copy")
    async with open_runtime(sandbox_scope="thread") as runtime:
        with pytest.raises(WrongPoint, match="no turn 2: give 0"):
            await runtime.fork("t", 2, copy="copy")
        with pytest.raises(WrongPoint, match="no thread 'unknown'"):
            await runtime.fork("unknown", copy="copy")
        assert await runtime.state("copy") is None
