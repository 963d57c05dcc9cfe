"""`code-agent chat` with lines from a pipe: nobody is asked, and nothing runs unasked."""

from __future__ import annotations

import subprocess

import pytest
from cli_program import PROGRAM, Program, execute


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


def test_each_line_is_a_message(program: Program) -> None:
    program.script("first answer", "second answer")
    done = chat(program, "one\n\n/thread\n  \ntwo", "--thread", "t")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.index("first answer") < done.stdout.index("second answer")
    assert "\x1b" not in done.stdout
    assert ">" not in done.stdout
    assert not (program.folder / ".code-agent" / "chat-history").exists()


@pytest.mark.docker
def test_what_needs_approval_ends_it_and_waits(program: Program) -> None:
    program.script(execute("touch /results/a"), "never said")
    done = chat(program, "go\nthe next message would drop it\n", "--thread", "t")
    assert done.returncode == 3
    assert "command: touch /results/a" in done.stdout
    assert "Nothing of what waits was run." in done.stdout
    again = chat(program, "anything\n", "--thread", "t")
    assert again.returncode == 3
    assert "command: touch /results/a" in again.stdout
    assert not (program.workspace / "results" / "a").exists()
    program.script(execute("touch /results/a"), "It is there.")
    done = chat(program, "/files results\n", "--thread", "t", "--approve", "auto")
    assert done.returncode == 0
    assert "It is there." in done.stdout
    assert "results/a" in done.stdout


def test_the_end_tells_how_it_went(program: Program) -> None:
    program.script("one answer")
    done = chat(program, "one\ntwo\n")
    assert done.returncode == 1
    assert "the script has 1 replies and was asked for one more" in done.stdout
    assert chat(program, "/nothing\n").returncode == 2
    assert chat(program, "/exit\nmore\n").returncode == 0
    done = chat(program, "", "--agent", "nobody")
    assert (done.returncode, "There is no agent nobody. There are: auto, deep, code" in done.stderr) == (
        2,
        True,
    )
    done = chat(program, "hi\n", "--model", "gpt-5")
    assert (done.returncode, "MODEL=gpt-5: must be" in done.stderr) == (2, True)
    assert "Traceback" not in done.stderr


def test_a_line_without_end_is_refused(program: Program) -> None:
    program.script("one answer")
    done = chat(program, "x" * (3 << 20))
    assert done.returncode == 2
    assert "longer than 1 MB" in done.stdout


def test_a_thread_in_use_is_left_alone(program: Program) -> None:
    from libs.persistence.thread_lock import thread_lock

    program.script("one answer")
    with thread_lock(program.folder / ".code-agent" / "locks", "t"):
        done = chat(program, "hi\n", "--thread", "t")
    assert done.returncode == 2
    assert "in use by another program" in done.stdout
