"""Output that looks like an unknown secret is reported to the person, and is not changed."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from agent.secrets.suspected_secrets import suspected
from libs.code_blocks import SandboxRunner
from libs.sandbox.host.local_sandbox import LocalSandbox
from tests.support.code_loops import bash, looping, playing

TOKEN = "ghp_" + "R7kQ2mXz9LwP4vTnY6sBc1Jd8HfG3uEaWq5o"


class Watched(SandboxRunner):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options, suspect=suspected)


def test_suspect_is_an_event_and_a_log_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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
            "found": [{"kind": "GitHub Token", "line": 2, "column": 3, "sample": "ghp_… (40 characters)"}],
        }
    ]
    assert "GitHub Token ghp_… (40 characters) in line 2" in caplog.text
    assert TOKEN not in caplog.text
    assert parts[-1][1]["executions"][0]["output"] == f"one\nx {TOKEN}\n"


async def test_search_does_not_run_on_the_event_loop(tmp_path: Path) -> None:
    """The search may take a second, and LangGraph's server forbids blocking calls on the loop."""
    searched = []

    def suspect(output: str, key: str) -> None:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        searched.append(output)

    with LocalSandbox(tmp_path / "workspace") as sandbox:
        runner = SandboxRunner(lambda: sandbox, scratch=str(tmp_path / "scratch"), suspect=suspect)
        await runner.run("bash", "echo a block", thread_id="1", key="1/0")
    assert searched == ["a block\n"]
