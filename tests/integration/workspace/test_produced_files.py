"""The files that a run made are named although they are in no folder of this machine."""

from __future__ import annotations

import io
import json
import secrets
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from agent.chat.chat_session import Chat
from agent.chat.slash_commands import COMMANDS
from agent.run import AgentName, Runtime, open_runtime
from agent.terminal import EventView, JsonLines, take_turn
from libs.backends.docker.sandbox_makers import SandboxMakers
from tests.support.workspaces.empty_starts import EmptyStarts

THREAD = secrets.token_hex(8)
"""Unique, because live interpreters of local sandboxes on one machine are found by the thread alone."""
TURNS = (
    "mkdir -p results; echo 1 > results/old; echo 1 > results/kept",
    "echo 2 > results/old; echo > notes; head -c 9 /dev/zero > results/plot.png",
)


def reply(agent: AgentName, command: str) -> Any:
    if agent == "code":
        return {"text": f"```bash\n{command}\n```"}
    return {"tool_calls": [{"name": "execute", "args": {"command": command}}]}


@pytest.fixture(params=["deep", "code"])
def agent(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgentName:
    """An agent whose sandboxes start empty, with a script of two turns."""

    def threads(makers: SandboxMakers, *_: object) -> EmptyStarts:
        return EmptyStarts(makers, tmp_path)

    monkeypatch.setattr(SandboxMakers, "threads", threads)
    monkeypatch.chdir(tmp_path)
    script = [each for command in TURNS for each in (reply(request.param, command), {"text": "Done."})]
    Path("script.yaml").write_text(yaml.safe_dump(script))
    for name, value in {
        "MODEL": "scripted:script.yaml",
        "APPROVALS": "auto",
        "SANDBOX_CLUSTER": "auto",
        "SANDBOX_SCOPE": "thread",
    }.items():
        monkeypatch.setenv(name, value)
    return request.param  # type: ignore[no-any-return]


async def carried_out(runtime: Runtime, agent: AgentName, view: EventView | JsonLines) -> None:
    run = await runtime.run(THREAD, agent)
    outcome = await take_turn(run, view, "a task", approvals="auto", ask=None)
    view.finish(outcome.result)


async def test_each_way_to_show_a_run_names_the_files_of_a_thread_that_travels(
    agent: AgentName, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_runtime() as runtime:
        shown = io.StringIO()
        await carried_out(runtime, agent, EventView(Console(file=shown)))
        assert "+ results/old\n" in shown.getvalue()
    if agent == "code":
        return  # a live interpreter of a local sandbox outlives the sandbox, and would serve the next one
    async with open_runtime() as runtime:  # the thread goes on in another sandbox
        await carried_out(runtime, agent, JsonLines(THREAD))
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        made = [(line["path"], line["plot"]) for line in lines if line["type"] == "file"]
        assert made == [("results/old", False), ("results/plot.png", True)]
        assert lines[-1]["files"] == ["results/old", "results/plot.png"]
    async with open_runtime() as runtime:
        shown = io.StringIO()
        chat = Chat(runtime, Console(file=shown), COMMANDS, answers=None, thread_id=THREAD)
        for command in ("/files results", "/show plot"):
            await COMMANDS[command.split()[0]].act(chat, command.partition(" ")[2])
        assert [line.split()[-1] for line in shown.getvalue().splitlines()[:4]] == [
            "results/kept",
            "results/old",
            "results/plot.png",
            "results/plot.png",
        ]
        assert "On this machine" not in shown.getvalue()
        assert runtime.computer.sandbox_of(THREAD).starts == 0  # type: ignore[attr-defined]
