"""What looks like a secret in a command's output is told to the person, and stays where it is (G6)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from code_loops import bash, looping, playing
from langchain_core.messages import HumanMessage

from agent.suspected import suspected
from libs.code_blocks import SandboxRunner

TOKEN = "ghp_" + "R7kQ2mXz9LwP4vTnY6sBc1Jd8HfG3uEaWq5o"


class Watched(SandboxRunner):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options, suspect=suspected)


def test_an_event_and_a_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = playing(
        bash(f"echo one; echo 'x {TOKEN}'"), bash("echo fine, nothing to see here at all"), "Done."
    )
    with caplog.at_level(logging.INFO), looping(tmp_path, model, runner=Watched) as graph:
        given = {"messages": [HumanMessage("Count the rows of /data/sales.csv.")]}
        parts = list(graph.stream(given, stream_mode=["custom", "values"]))
    events = [part for mode, part in parts if mode == "custom" and part["type"] == "secret_suspected"]
    codes = [part["id"] for mode, part in parts if mode == "custom" and part["type"] == "code"]
    assert events == [
        {
            "type": "secret_suspected",
            "tool_call_id": codes[0],
            "found": [{"kind": "GitHub Token", "line": 2, "column": 3, "sample": "ghp… (40 characters)"}],
        }
    ]
    assert "GitHub Token ghp… (40 characters) in line 2" in caplog.text
    assert TOKEN not in caplog.text
    assert parts[-1][1]["executions"][0]["output"] == f"one\nx {TOKEN}\n"


def test_outside_of_a_run_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        suspected(TOKEN, None)
        suspected("hi\n", None)
    assert len(caplog.records) == 1
