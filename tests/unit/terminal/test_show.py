"""A terminal shows every character of a call that waits for approval, and each file in its own line."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from agent.run import FileMade, Result
from agent.terminal.terminal_view import EventView
from libs.middleware.approvals.question import Request


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("rm a \\\n  b", "  rm a \\\n    b\n"),
        ("rm a \\ \n  b", "  rm a \\‹U+0020›\n    b\n"),
        ("rm a \\\t\n  b", "  rm a \\‹U+0009›\n    b\n"),
        ("cat <<E\n\nx\nE\n", "  cat <<E\n\n  x\n  E\n\n"),
        ("a\x0bb\x85c\u2028d\ne", "  a‹U+000B›b‹U+0085›c‹U+2028›d\n  e\n"),
    ],
)
def test_blank_after_a_backslash_is_visible(command: str, shown: str) -> None:
    screen = io.StringIO()
    asked = {"name": "execute", "description": Request("execute", {"command": command}, "1").description}
    EventView(Console(file=screen, width=40)).show_request({"action_requests": [asked]}, 0)
    assert screen.getvalue().endswith(f"lines):\n{shown}")


def test_name_of_a_file_with_a_line_end_imitates_no_other_file() -> None:
    screen = io.StringIO()
    view = EventView(Console(file=screen, width=80))
    path = "results/a\nFile: results/b.txt"
    view.show(FileMade(path))
    view.finish(Result("thread", "completed", "", files=(path,)))
    made = r"'results/a\nFile: results/b.txt'"
    assert [line for line in screen.getvalue().splitlines() if line] == [f"+ {made}", f"File: {made}"]
