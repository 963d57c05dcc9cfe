"""What a terminal shows of a call that waits: all of it, so that what is shown is what runs (H6)."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from agent.show import EventView
from libs.middleware.decisions import Request


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
def test_a_blank_behind_a_backslash_can_be_seen(command: str, shown: str) -> None:
    screen = io.StringIO()
    asked = {"name": "execute", "description": Request("execute", {"command": command}, "1").description}
    EventView(Console(file=screen, width=40)).show_request({"action_requests": [asked]}, 0)
    assert screen.getvalue().endswith(f"lines):\n{shown}")
