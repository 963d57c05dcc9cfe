"""Updates for an editor: titles, paths, plans, live output."""

from __future__ import annotations

import pytest

from agent.acp.tool_calls import host_path, plan_of, title_of
from agent.acp.updates import Updates
from agent.run.run_events import CommandEnded, CommandStarted, Output
from libs.sandbox.protocol import Execution

ON_HOST = host_path("/home/me/workspace")


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("/workspace", "/home/me/workspace"),
        ("/data/x y.csv", "/home/me/workspace/data/x y.csv"),
        ("/datasets/x", None),
        ("/data/../../etc/passwd", None),
        ("data/x", None),
    ],
)
def test_paths_of_the_sandbox_on_the_host(inside: str, outside: str | None) -> None:
    assert ON_HOST(inside) == outside


def test_files_of_a_thread_that_travels_have_no_path_on_the_host() -> None:
    assert host_path(None)("/results/x.csv") is None


def test_title_is_one_visible_line() -> None:
    assert title_of("execute", {"command": "ls\nrm x\nrm y"}) == "ls … (3 lines)"
    assert title_of("execute", {"command": "a\u202eb"}) == "a‹U+202E›b"
    assert len(title_of("execute", {"command": "x" * 5_000})) < 150
    assert title_of("anything", {}) == "anything"


def test_malformed_plan() -> None:
    for todos in (None, [1], [{"status": "pending"}]):
        assert plan_of({"todos": todos}) == []
    [entry] = plan_of({"todos": [{"content": "x", "status": "someday"}]})
    assert entry.status == "pending"


def test_live_output_is_throttled_and_cut() -> None:
    updates = Updates(ON_HOST)
    list(updates.of(CommandStarted("a", "bash", "yes", subagent=False)))
    [first] = updates.of(Output("a", "first\n"))
    assert "first" in first.content[0].content.text  # type: ignore[union-attr, index]
    assert list(updates.of(Output("a", "x" * 100_000))) == []
    assert updates.due() is None
    updates._calls["a"].shown_at -= 1
    shown = updates.due()
    assert shown is not None
    assert len(shown.content[0].content.text) < 9_000  # type: ignore[union-attr, index]
    assert updates.due() is None
    done = Execution(language="bash", code="yes", output="y", exit_code=None, seconds=1.0)
    [ended] = updates.of(CommandEnded("a", done))
    assert ended.status == "failed"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("exit_code", "seconds", "told"),
    [
        (0, 0.0, "exit 0, 0.0 s"),
        (None, 0.0, "no exit code"),
        (125, 0.0, "exit 125"),
        (125, 2.0, "exit 125, 2.0 s"),
    ],
)
def test_unknown_duration_is_not_told(exit_code: int | None, seconds: float, told: str) -> None:
    done = Execution(language="bash", code="x", output="", exit_code=exit_code, seconds=seconds)
    [ended] = Updates(ON_HOST).of(CommandEnded("a", done))
    assert ended.content[-1].content.text == told  # type: ignore[union-attr, index]
