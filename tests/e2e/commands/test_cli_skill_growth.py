"""`code-agent run` with proposed skills: approval, storage, use, removal."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.clients.acp_editor import editing
from tests.clients.cli_program import Program, execute

pytestmark = pytest.mark.docker

PROMPT = "[q]uit and leave it pending:"
SKILL = "---\nname: greet\ndescription: Greets. Use when one is to be greeted.\n---\n\n# Greet\n"
WRITE = (
    f"mkdir -p skills/greet && printf %s {shlex.quote(SKILL)} > skills/greet/SKILL.md && "
    "printf 'print(\"hello\")\\n# \\u202e' > skills/greet/run.py"
)
USE = "cat /skills.d/learned/greet/SKILL.md; python /skills.d/learned/greet/run.py"

AGENTS = ["deep", pytest.param("code", marks=pytest.mark.thorough)]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path, {"SKILLS_EVOLVE": "1"})


def say(agent: str, command: str) -> Any:
    return execute(command) if agent == "deep" else f"I do it.\n```bash\n{command}\n```"


def kept(program: Program) -> Path:
    return program.folder / ".code-agent" / "skills" / "learned" / "greet"


def asked(lines: list[dict[str, Any]]) -> list[str]:
    return [
        request["name"] for line in lines if line["type"] == "approval" for request in line["action_requests"]
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("agent", AGENTS)
def test_proposal_is_approved_at_a_terminal(program: Program, agent: str) -> None:
    program.script(say(agent, WRITE), "I propose it.", *["Good morning."] * 2)
    terminal = program.at_terminal("run", "--agent", agent, "--thread", "t", "learn to greet")
    terminal.wait_for("any call of the [t]ool")
    terminal.wait_for(PROMPT)
    terminal.type("a\n")
    terminal.wait_for("adopt_skill")
    terminal.wait_for('print("hello")')
    terminal.wait_for("‹U+202E›")  # control characters are visible
    terminal.wait_for(f"[a]pprove, [r]eject, or {PROMPT}")
    terminal.type("t\n")  # no grant for the rest of a thread is offered
    terminal.wait_for("Please answer a, r or q.")
    terminal.wait_for(PROMPT)  # keys typed before the prompt are dropped
    assert not kept(program).exists()
    terminal.type("a\n")
    terminal.wait_for("The skill greet is kept: /skills.d/learned/greet/SKILL.md.")
    assert terminal.end() == 0
    assert terminal.text.count("I propose it.") == 1
    assert (kept(program) / "SKILL.md").read_text() == SKILL

    assert program.lines("--thread", "t", "Good morning")[-1]["text"] == "Good morning."
    program.script(say(agent, USE), "Greeted.")
    result = program.lines("--agent", agent, "--approve", "auto", "greet Ada")[-1]
    assert result["executions"][0]["output"].endswith("hello\n")
    assert [program.run("skills", "forget", "greet").returncode for _ in range(2)] == [0, 2]
    assert not kept(program).exists()


@pytest.mark.thorough
@pytest.mark.parametrize("agent", AGENTS)
def test_pending_proposal_is_approved_by_another_program(program: Program, agent: str) -> None:
    program.script(say(agent, WRITE), "I propose it.")
    assert asked(program.lines("--agent", agent, "--thread", "t", "learn", status=3)) != ["adopt_skill"]
    terminal = program.at_terminal("run", "--thread", "t")
    terminal.wait_for(PROMPT)
    terminal.type("a\n")
    terminal.wait_for("adopt_skill")
    terminal.wait_for(PROMPT)
    os.kill(terminal.pid, signal.SIGKILL)  # instead of an answer
    terminal.end()
    (program.workspace / "skills" / "greet" / "SKILL.md").unlink()
    assert asked(program.lines("--thread", "t", status=3)) == ["adopt_skill"]
    assert not kept(program).exists()
    result = program.lines("--thread", "t", "--approve", "auto")[-1]
    assert result["text"] == "I propose it.\n\nThe skill greet is kept: /skills.d/learned/greet/SKILL.md."
    assert (kept(program) / "SKILL.md").read_text() == SKILL, "what was shown"


@pytest.mark.thorough
async def test_proposal_is_approved_in_an_editor(program: Program) -> None:
    program.script(execute(WRITE), "I propose it.")
    async with editing(program) as editor:
        session = await editor.new(program)
        assert await editor.prompt(session, "learn") == "end_turn"
        asked, options = editor.asked[1]
        assert asked.title == "adopt_skill greet"
        assert [option.kind for option in options] == ["allow_once", "reject_once"]
        assert 'print("hello")' in asked.content[0].content.text
        assert editor.call("adopt_skill")["statuses"] == ["pending", "completed"]
        assert editor.said() == "I propose it.The skill greet is kept: /skills.d/learned/greet/SKILL.md."
    assert kept(program).exists()
