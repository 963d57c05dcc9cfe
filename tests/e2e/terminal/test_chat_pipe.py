"""`code-agent chat` with lines from a pipe: nobody can be asked, so no gated call runs."""

from __future__ import annotations

import subprocess

import pytest

from tests.clients.cli_program import PROGRAM, Program, execute


def chat(program: Program, lines: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, "chat", *arguments],
        cwd=program.folder,
        env=program.env,
        input=lines,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.thorough
@pytest.mark.docker
def test_each_line_is_a_message(program: Program) -> None:
    program.script("first answer", "second answer", "third answer")
    done = chat(program, "one\n\n/thread\n  \ntwo", "--thread", "t")
    assert (done.returncode, done.stderr) == (0, "")
    shown = [done.stdout.index(text) for text in ("> one\n", "first answer", "> two\n", "second answer")]
    assert shown == sorted(shown)
    assert done.stdout.startswith(f"New workspace in {program.workspace}\n")
    assert done.stdout.endswith("code-agent chat --thread t\n")
    assert "\x1b" not in done.stdout
    assert not (program.folder / ".code-agent" / "chat-history").exists()
    done = chat(program, "three", "--thread", "t")
    assert "third answer" in done.stdout
    assert "Go on" not in done.stdout, "the script has no reply left"


@pytest.mark.docker
@pytest.mark.thorough
def test_call_that_needs_approval_ends_the_pipe_with_status_3(program: Program) -> None:
    program.script(execute("touch /results/a"), "never said")
    done = chat(program, "go\nthe next message would drop it\n", "--thread", "t")
    assert done.returncode == 3
    assert "command: touch /results/a" in done.stdout
    assert "Pending calls wait for a decision." in done.stdout
    assert "code-agent run --thread t --approve auto\n" in done.stdout
    done = chat(program, "/exit\n", "--thread", "t", "--model", "scripted:script.yaml")
    assert done.returncode == 3
    assert "code-agent run --thread t --model scripted:script.yaml\n" in done.stdout
    assert not (program.workspace / "results" / "a").exists()
    program.script(execute("touch /results/a"), "It is there.")
    done = chat(program, "/files results\n", "--thread", "t", "--approve", "auto")
    assert done.returncode == 0
    assert "It is there." in done.stdout
    assert "results/a" in done.stdout


@pytest.mark.thorough
@pytest.mark.docker
def test_exit_status_of_a_pipe(program: Program) -> None:
    program.script("one answer")
    done = chat(program, "one\ntwo\n")
    assert done.returncode == 1
    assert "the script has 1 reply for this conversation" in done.stdout
    assert chat(program, "/nothing\n").returncode == 2
    assert chat(program, "/exit\nmore\n").returncode == 0
    done = chat(program, "x" * (3 << 20))
    assert (done.returncode, "longer than 1 MB" in done.stdout) == (2, True)
    for option, value, said in (
        ("--agent", "nobody", "There is no agent nobody. There are: auto, deep, code"),
        ("--model", "gpt-5", "MODEL=gpt-5: must be"),
    ):
        done = chat(program, "hi\n", option, value)
        assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (2, True, False)
