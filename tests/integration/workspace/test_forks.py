"""Copies of a thread at a point, each with its own conversation and files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from agent.run import WrongPoint, open_runtime
from agent.run.runtime import Runtime

pytestmark = pytest.mark.docker

COPIES = 20


def call(command: str) -> dict[str, object]:
    return {"tool_calls": [{"name": "execute", "args": {"command": command}}]}


@pytest.fixture(autouse=True)
def _script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    turns = [reply for turn in (1, 2, 3) for reply in (call(f"echo {turn} >> /results/a"), {"text": "Done."})]
    Path("script.yaml").write_text(yaml.safe_dump(turns))
    monkeypatch.setenv("MODEL", "scripted:script.yaml")
    monkeypatch.setenv("APPROVALS", "auto")


async def turn(runtime: Runtime, thread: str, words: str) -> None:
    run = await runtime.run(thread, "deep")
    async for _ in run.begin(words):
        pass


def place(thread: str) -> Path:
    return Path("workspace", "threads", thread, "results", "a")


def content(thread: str) -> str:
    """Return the content of the file; empty without the file."""
    return place(thread).read_text() if place(thread).exists() else ""


def edit(thread: str, text: str) -> None:
    """Save the file, as a person does."""
    place(thread).write_text(text)


@pytest.mark.thorough
async def test_copies_made_at_once_have_the_files_of_their_points(tmp_path: Path) -> None:
    async with open_runtime(sandbox_scope="thread", sandbox_warm=0) as runtime:
        for words in ("first", "second"):
            await turn(runtime, "t", words)
        await (await runtime.points("t")).points()  # waits for the capture after the last step
        edit("t", "of a person")
        points = {f"copy-{number}": (0, 1, 2, None)[number % 4] for number in range(COPIES)}
        made = [runtime.fork("t", at, copy=copy) for copy, at in points.items()]
        moved = await asyncio.gather(*made)
        assert {each.instead for each in moved} == {None}
        expected = {0: "", 1: "1\n", 2: "1\n2\n", None: "of a person"}
        for copy, at in points.items():
            assert content(copy) == expected[at], copy
        assert content("t") == "of a person"

        await turn(runtime, "copy-1", "second, again")
        assert content("copy-1") == "1\n2\n"
        assert content("copy-5") == "1\n", "other copies stay as they are"
        words = [point.words for point in await (await runtime.points("copy-1")).points()]
        assert words == ["", "first", "second, again"]


async def test_common_workspace_and_unknown_points_are_refused(tmp_path: Path) -> None:
    async with open_runtime(sandbox_scope="shared") as runtime:
        await turn(runtime, "t", "first")
        with pytest.raises(WrongPoint, match="SANDBOX_SCOPE=thread"):
            await runtime.fork("t", 1, copy="copy")
    async with open_runtime(sandbox_scope="thread") as runtime:
        with pytest.raises(WrongPoint, match="no turn 2: give 0"):
            await runtime.fork("t", 2, copy="copy")
        with pytest.raises(WrongPoint, match="no thread 'unknown'"):
            await runtime.fork("unknown", copy="copy")
        assert await runtime.state("copy") is None
