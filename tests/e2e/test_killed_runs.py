"""S16: the program is killed in the middle of a run, which then goes on: nothing is done twice."""

from __future__ import annotations

import os
import signal

import pytest
from cli_program import Program, call, execute

pytestmark = pytest.mark.docker

WAITS = "echo x >> /results/waits; echo up; sleep 61"
UNKNOWN = "How far it came is unknown"


def killed(program: Program, *arguments: str) -> None:
    """Run it until a command says that it is up, and end it there."""
    process = program.start("run", "--json", "--thread", "t", *arguments)
    assert process.stdout is not None
    assert any('"up\\n"' in line for line in process.stdout)
    os.kill(process.pid, signal.SIGKILL)
    process.stdout.close()
    process.wait()


def ran(program: Program) -> dict[str, int]:
    """File -> how often a command has written to it."""
    return {
        file.name: len(file.read_text().splitlines()) for file in (program.workspace / "results").iterdir()
    }


def test_blocks_of_a_reply(program: Program) -> None:
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
    assert after["output"].endswith("False\n")
    assert "its variables are lost" in after["output"]
    # The last one was meant for a directory that is gone.
    assert ran(program) == {"first": 1, "second": 1, "waits": 1}
    kept = (program.folder / ".code-agent" / "threads.sqlite").read_bytes()
    assert b"Nothing was run a second time" in kept


def test_what_was_only_asked_about_has_not_begun(program: Program) -> None:
    """It runs as usual once another program has the approval."""
    program.script(f"```bash\n{WAITS.replace('61', '0')}\n```", "Done.")
    asked = program.run("run", "--agent", "code", "--thread", "t", "go")
    assert asked.returncode == 3, asked.stderr
    assert "Done." in program.lines("--approve", "auto", "--thread", "t")[-1]["text"]
    assert ran(program) == {"waits": 1}


def test_calls_of_a_turn(program: Program) -> None:
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


def test_a_subagents_commands(program: Program) -> None:
    program.script(
        call("task", subagent_type="general-purpose", description="the part"),
        "What happened?",
    )
    script = program.folder / "script.yaml"
    script.write_text(
        f"""conversations:
- when: the part
  replies:
  - tool_calls: [{{name: execute, args: {{command: "echo x >> /results/quick"}}}}]
  - tool_calls: [{{name: execute, args: {{command: "{WAITS}"}}}}]
  - text: Part is done.
- when: go
  replies:
  - tool_calls: [{{name: task, args: {{subagent_type: general-purpose, description: the part}}}}]
  - text: What happened?
"""
    )
    killed(program, "--agent", "deep", "--approve", "auto", "go")
    result = program.lines("--approve", "auto", "--thread", "t")[-1]
    assert (result["status"], result["text"]) == ("completed", "What happened?")
    assert [each["exit_code"] for each in result["executions"]] == [125]
    assert ran(program) == {"quick": 1, "waits": 1}


def test_what_was_approved_is_not_asked_about_again(program: Program) -> None:
    program.script(execute(WAITS), "What happened?")
    assert program.run("run", "--agent", "deep", "--thread", "t", "go").returncode == 3
    killed(program, "--approve", "auto")
    result = program.lines("--thread", "t")[-1]
    assert (result["status"], result["text"]) == ("completed", "What happened?")
    assert ran(program) == {"waits": 1}


def test_killed_again_and_again(program: Program) -> None:
    """Each time it goes on it is killed, in a command that it has not run before."""
    program.script(*[execute(f"echo x >> /results/{number}; {WAITS}") for number in range(3)], "Done.")
    killed(program, "--agent", "deep", "--approve", "auto", "go")
    killed(program, "--approve", "auto")
    killed(program, "--approve", "auto")
    assert program.lines("--approve", "auto", "--thread", "t")[-1]["text"] == "Done."
    assert ran(program) == {"0": 1, "1": 1, "2": 1, "waits": 3}
