"""A block with `await` is one coroutine: a loop runs from its first statement to its last expression."""

from __future__ import annotations

import pytest

from tests.support.sandboxes import ON_BOTH, Session

HEAD = "import asyncio\nasync def one(): return 1\n"


@ON_BOTH
@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("task = asyncio.create_task(one())\nawait task", "1\n"),
        ("task = asyncio.create_task(one())\nprint(await task)", "1\n"),
        ("both = asyncio.gather(one(), one())\nawait both", "[1, 1]\n"),
        ("loop = asyncio.get_running_loop()\nawait one()\nloop is asyncio.get_running_loop()", "True\n"),
        ("made = asyncio.get_event_loop().create_future()\nmade.set_result(2)\nawait made", "2\n"),
        ("task = asyncio.create_task(one())\nawait task\ntask.result()", "1\n"),
        ("await one()\nprint(asyncio.current_task() is not None)", "True\n"),
        ("task = asyncio.create_task(one())\nawait task;", ""),
        ("task = asyncio.create_task(one())\nx = await task", ""),
    ],
)
def test_statements_beside_await_have_the_running_loop(block: Session, code: str, shown: str) -> None:
    result = block(HEAD + code)
    assert (result.exit_code, result.output) == (0, shown)


def test_block_with_await_keeps_its_variables_and_the_value(block: Session) -> None:
    assert block(f"{HEAD}x = await one()\nx + 1").output == "2\n"
    assert block("x, _").output == "(1, 2)\n"
    assert block("[name for name in globals() if ' ' in name]").output == "[]\n"


def test_error_of_a_block_with_await_is_shown_once(block: Session) -> None:
    assert "line 4, in <module>\n    1 / 0\n" in block(f"{HEAD}await one()\n1 / 0").output
    assert block("await one()\nexit('end')").output == "end\n"
    assert block("import gc\ngc.collect();").output == ""


def test_warning_about_a_block_with_await_is_shown_once(block: Session) -> None:
    assert block(f"{HEAD}await one() is 1").output.count("SyntaxWarning") == 1


@pytest.mark.parametrize(
    "stop", ["loop.call_soon(loop.stop)", "loop.call_later(0.05, loop.stop)", "loop.stop()"]
)
def test_loop_that_a_block_stops_runs_each_block_to_its_end(block: Session, stop: str) -> None:
    assert block(f"{HEAD}loop = asyncio.get_running_loop()\nawait one()\n{stop}\nawait one()").output == "1\n"
    assert block("await asyncio.sleep(0.1, 2)").output == "2\n"
