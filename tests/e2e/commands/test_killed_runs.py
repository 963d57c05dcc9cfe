"""A killed run that goes on runs no command twice."""

from __future__ import annotations

import os
import signal

import pytest

from tests.clients.cli_program import Program, call, execute
from tests.support.sandboxes import NEW_INTERPRETER, NEW_SANDBOX

pytestmark = [pytest.mark.docker, pytest.mark.thorough]

WAITS = "echo x >> /results/waits; echo up; sleep 61"
UNKNOWN = "Its effect is unknown"


def killed(program: Program, *arguments: str) -> None:
    """Run the program until a command prints `up`, and kill it."""
    process = program.start("run", "--json", "--thread", "t", *arguments)
    assert process.stdout is not None
    assert any('"up\\n"' in line for line in process.stdout)
    os.kill(process.pid, signal.SIGKILL)
    process.stdout.close()
    process.wait()


def ran(program: Program) -> dict[str, int]:
    """File name -> number of commands that wrote to it."""
    return {
        file.name: len(file.read_text().splitlines()) for file in (program.workspace / "results").iterdir()
    }


def test_killed_run_repeats_no_block(program: Program) -> None:
    reply = f"""I begin.
```bash
echo x >> /results/first; mkdir -p /tmp/sub; cd /tmp/sub; echo first
```
```python
value = 41; print(value, file=open("/results/second", "a")); print("second")
```
```bash
{WAITS}
```
```bash
echo x >> /results/never; rm -rf *
```"""
    program.script(reply, "```python\nprint('value' in globals())\n```", "What happened?")
    killed(program, "--agent", "code", "--approve", "auto", "go")

    result = program.lines("--approve", "auto", "--thread", "t")[-1]
    assert (result["status"], result["text"]) == ("completed", "What happened?")
    first, second, third, after = result["executions"]
    assert (first["output"], first["exit_code"]) == ("first\n", 0)
    assert (second["output"], second["exit_code"]) == ("second\n", 0)
    assert third["exit_code"] == 125
    assert UNKNOWN in third["output"]
    assert after["output"] == f"{NEW_SANDBOX}{NEW_INTERPRETER}False\n"
    # The last block did not run: its working directory is gone.
    assert ran(program) == {"first": 1, "second": 1, "waits": 1}
    kept = (program.folder / ".code-agent" / "threads.sqlite").read_bytes()
    assert b"Nothing was run a second time" in kept


def test_killed_run_repeats_no_call(program: Program) -> None:
    later = f"sleep 2; {WAITS}"  # when the others have ended
    program.script(
        [
            execute("echo x >> /results/quick; echo quick"),
            execute(later),
            call("write_file", file_path="/results/written", content="x"),
        ],
        "What happened?",
    )
    killed(program, "--agent", "deep", "--approve", "auto", "go")
    result = program.lines("--approve", "auto", "--thread", "t")[-1]
    assert (result["status"], result["text"]) == ("completed", "What happened?")
    told = {each["code"]: each for each in result["executions"]}
    assert told[later]["exit_code"] == 125
    assert UNKNOWN in told[later]["output"]
    assert ran(program) == {"quick": 1, "waits": 1, "written": 1}


def test_killed_run_repeats_no_command_of_a_subagent(program: Program) -> None:
    program.conversations(
        the_part=[[execute("echo x >> /results/quick")], [execute(WAITS)], "Part is done."],
        go=[[call("task", subagent_type="general-purpose", description="the part")], "What happened?"],
    )
    killed(program, "--agent", "deep", "--approve", "auto", "go")
    result = program.lines("--approve", "auto", "--thread", "t")[-1]
    assert (result["status"], result["text"]) == ("completed", "What happened?")
    assert [each["exit_code"] for each in result["executions"]] == [125]
    assert ran(program) == {"quick": 1, "waits": 1}


def test_run_killed_three_times_repeats_nothing(program: Program) -> None:
    """Each resumed run is killed in a command that has not run before."""
    program.script(*[execute(f"echo x >> /results/{number}; {WAITS}") for number in range(3)], "Done.")
    assert program.run("run", "--agent", "deep", "--thread", "t", "go").returncode == 3
    for _ in range(3):
        killed(program, "--approve", "auto")
    assert program.lines("--approve", "auto", "--thread", "t")[-1]["text"] == "Done."
    assert ran(program) == {"0": 1, "1": 1, "2": 1, "waits": 3}


def test_next_task_repeats_nothing(program: Program) -> None:
    program.script(execute(WAITS), "What happened?")
    killed(program, "--agent", "deep", "--approve", "auto", "go")
    result = program.lines("--approve", "auto", "--thread", "t", "What came of it?")[-1]
    assert (result["text"], result["executions"]) == ("What happened?", [])
    assert ran(program) == {"waits": 1}
    assert UNKNOWN.encode() in (program.folder / ".code-agent" / "threads.sqlite").read_bytes()
