"""`code-agent run --agent code`: blocks of Python and bash, asked for, run, told of and taken up again."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
from cli_program import Program, call, containers_of, execute, processes_of

PROMPT = "[q]uit and leave it pending: "


def block(language: str, code: str, words: str = "I look.") -> str:
    return f"{words}\n```{language}\n{code}\n```"


def executions(result: dict[str, Any]) -> list[tuple[str, str, str, int]]:
    return [(e["language"], e["code"], e["output"], e["exit_code"]) for e in result["executions"]]


@pytest.mark.docker
def test_json_tells_of_each_block(program: Program) -> None:
    program.script(
        block("python", "x = 6 * 7\nprint(x)") + "\n" + block("bash", "cd /tmp; echo \u2192 here >&2"),
        block("python", "x + 1")
        + "\n"
        + block("sh", "pwd; exit 3")
        + "\n"
        + block("bash", "touch /results/no"),
        "Surely 43.",  # not an answer: the last block failed
        block("python", "print(x + 1)"),
        "The answer is 43, as I found in /tmp.",
    )
    lines = program.lines("--agent", "code", "--approve", "auto", "count")

    assert {line["type"] for line in lines} == {"message", "command", "output", "result"}
    assert all(line["tool_calls"] == [] for line in lines if line["type"] == "message")
    commands = [(line["language"], line["code"]) for line in lines if line["type"] == "command"]
    assert commands == [
        ("python", "x = 6 * 7\nprint(x)"),
        ("bash", "cd /tmp; echo \u2192 here >&2"),
        ("python", "x + 1"),
        ("bash", "pwd; exit 3"),
        ("python", "print(x + 1)"),
    ]
    result = lines[-1]
    assert (result["status"], result["text"]) == ("completed", "The answer is 43, as I found in /tmp.")
    ran = executions(result)
    assert [(language, code) for language, code, _, _ in ran] == commands
    assert [output for _, _, output, _ in ran] == ["42\n", "\u2192 here\n", "43\n", "/tmp\n", "43\n"]
    assert [code for _, _, _, code in ran] == [0, 0, 0, 3, 0]
    for command, (_, _, output, code) in zip(
        (line for line in lines if line["type"] == "command"), ran, strict=True
    ):
        live = [line for line in lines if line["type"] == "output" and line["id"] == command["id"]]
        assert "".join(line["text"] for line in live) == output
        assert live[-1]["exit_code"] == code
    assert not (program.workspace / "results" / "no").exists()


@pytest.mark.docker
def test_a_person_reads_each_block_and_the_plots(program: Program) -> None:
    plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint('drawn')"
    program.script(block("python", plot), "Here is the plot.")

    done = program.run("run", "--agent", "code", "--approve", "auto", "plot it")

    assert done.returncode == 0, done.stderr
    assert ", code agent, model scripted:script.yaml" in done.stdout
    assert done.stdout.count("plt.plot([1, 2])") == 1, "what the reply has shown is not shown again"
    assert ">>> import matplotlib.pyplot as plt … (3 lines)\n  │ drawn\n" in done.stdout
    [made] = (program.workspace / "results").glob("*.png")
    assert f"+ results/{made.name}  (plot)" in done.stdout
    assert f"Plot: results/{made.name}" in done.stdout
    assert done.stdout.count("Here is the plot.") == 1
    assert "\x1b" not in done.stdout


@pytest.mark.docker
def test_what_waits_runs_once_and_the_thread_knows_its_agent(program: Program) -> None:
    program.script(
        block("python", "print('a', file=open('/results/log', 'a'))")
        + block("bash", "\necho b >> /results/log", "\n"),
        "Both are written.",
        *["Nothing to do."] * 2,
    )
    lines = program.lines("--agent", "code", "--thread", "t", "write", status=3)
    [approval] = [line for line in lines if line["type"] == "approval"]
    assert [request["name"] for request in approval["action_requests"]] == ["execute_code"] * 2
    assert [request["args"]["language"] for request in approval["action_requests"]] == ["python", "bash"]
    assert (lines[-1]["status"], lines[-1]["executions"]) == ("interrupted", [])
    assert not (program.workspace / "results" / "log").exists()

    done = program.run("run", "--agent", "deep", "--thread", "t")
    assert done.returncode == 2
    assert "'t' is one of the code agent" in done.stderr

    result = program.lines("--thread", "t", "--approve", "auto")[-1]
    assert (result["status"], result["text"]) == ("completed", "Both are written.")
    assert [language for language, _, _, _ in executions(result)] == ["python", "bash"]
    assert (program.workspace / "results" / "log").read_text() == "a\nb\n"

    assert program.run("run", "--thread", "t", "--approve", "auto").returncode == 2
    assert program.lines("--thread", "t", "hello")[-1]["text"] == "Nothing to do."
    assert (program.workspace / "results" / "log").read_text() == "a\nb\n"


@pytest.mark.docker
def test_each_block_is_shown_whole_and_a_refusal_is_read(program: Program) -> None:
    program.script(
        block("python", "a = 1\nopen('/results/a', 'w').close()") + "\n" + block("bash", "touch /results/b"),
        "I leave it at a.",
    )
    terminal = program.at_terminal("run", "--agent", "code", "--thread", "t", "go")
    terminal.wait_for("Waits for approval (1 of 2):")
    terminal.wait_for("language: python")
    terminal.wait_for("a = 1\n  open('/results/a', 'w').close()")
    terminal.wait_for(PROMPT)
    terminal.type("a\n")
    terminal.wait_for("Waits for approval (2 of 2):")
    terminal.wait_for("language: bash")
    terminal.wait_for("touch /results/b")
    terminal.wait_for(PROMPT)
    assert not (program.workspace / "results" / "a").exists()
    terminal.type("r\n")
    terminal.wait_for("Reason")
    terminal.type("b is taken\n")
    terminal.wait_for(">>> a = 1 … (2 lines)")
    terminal.wait_for("I leave it at a.")
    assert terminal.end() == 0
    assert [path.name for path in (program.workspace / "results").iterdir()] == ["a"]
    stored = (program.folder / ".code-agent" / "threads.sqlite").read_bytes()
    assert b"A person refused it: b is taken" in stored


@pytest.mark.docker
def test_a_run_without_code_has_its_own_status(program: Program) -> None:
    program.script(*["```\nprint(4711)\n```"] * 4)
    result = program.lines("--agent", "code", "sum up /data/sales.csv", status=1)[-1]
    assert (result["status"], result["executions"]) == ("no_execution", [])
    assert "no code was run" in result["text"]

    done = program.run("run", "--agent", "code", "sum up /data/sales.csv")
    assert done.returncode == 1
    assert done.stdout.count("no code was run") == 1, (
        "the last words are not streamed, and shown all the same"
    )
    assert done.stdout.count("4711") == 4


@pytest.mark.docker
def test_steps_and_budgets_end_with_status_4(program: Program) -> None:
    program.script(*[block("python", f"print({number})") for number in range(10)])
    result = program.lines("--agent", "code", "--approve", "auto", "count", status=4)[-1]
    assert result["status"] == "max_steps"
    assert "10 steps are used up" in result["text"]
    assert [output for _, _, output, _ in executions(result)] == [f"{number}\n" for number in range(10)]

    program.environment["RUN_MAX_CALLS"] = "1"
    result = program.lines("--agent", "code", "--approve", "auto", "count", status=4)[-1]
    assert result["status"] == "budget_calls"
    assert "RUN_MAX_CALLS" in result["text"]


@pytest.mark.docker
def test_code_that_fails_three_times_is_an_error(program: Program) -> None:
    program.script(*[block("python", "1 / 0")] * 3)
    done = program.run("run", "--agent", "code", "--approve", "auto", "divide")
    assert done.returncode == 1
    assert done.stdout.count("the same code failed three times") == 1
    assert "│ ZeroDivisionError" in done.stdout


@pytest.mark.docker
@pytest.mark.parametrize("language", ["python", "bash"])
def test_ctrl_c_stops_the_block_and_keeps_the_thread(program: Program, language: str) -> None:
    waits = "import subprocess\nprint('up', flush=True)\nsubprocess.run(['sleep', '61'])"
    code = waits if language == "python" else "trap '' INT TERM; echo up; sleep 61"
    program.script(block(language, code), "I was stopped.")
    terminal = program.at_terminal("run", "--agent", "code", "--approve", "auto", "--thread", "t", "go")
    terminal.wait_for("│ up")
    since = time.monotonic()
    terminal.type("\x03")
    while any("sleep 61" in line for line in processes_of(terminal.pid)):
        assert time.monotonic() - since < 1
    assert terminal.end() == 130
    assert "Traceback" not in terminal.text
    assert containers_of(terminal.pid) == []

    result = program.lines("--approve", "auto", "--thread", "t")[-1]
    assert (result["text"], result["executions"]) == ("I was stopped.", [])
    stored = (program.folder / ".code-agent" / "threads.sqlite").read_bytes()
    assert stored.count(b"How far it came is unknown") >= 1


@pytest.mark.docker
def test_a_killed_program_repeats_nothing(program: Program) -> None:
    program.script(block("bash", "echo ran >> /results/log; echo up; sleep 61"), "What happened?")
    process = program.start("run", "--agent", "code", "--approve", "auto", "--thread", "t", "--json", "go")
    assert process.stdout is not None
    assert any('"up\\n"' in line for line in process.stdout)
    os.kill(process.pid, signal.SIGKILL)
    process.stdout.close()
    process.wait()

    result = program.lines("--approve", "auto", "--thread", "t")[-1]
    assert result["text"] == "What happened?"
    assert [each["exit_code"] for each in result["executions"]] == [125]
    assert (program.workspace / "results" / "log").read_text() == "ran\n"


@pytest.mark.docker
@pytest.mark.parametrize("agent", ["code", "deep"])
def test_another_task_for_a_killed_thread_repeats_nothing_and_the_model_is_told(
    program: Program, agent: str
) -> None:
    command = "echo ran >> /results/log; echo up; sleep 61"
    first = block("bash", command) if agent == "code" else execute(command)
    # The code-block agent is asked whether it knows, and says it again.
    program.script(first, "What happened?", "What happened?")
    process = program.start("run", "--agent", agent, "--approve", "auto", "--thread", "t", "--json", "go")
    assert process.stdout is not None
    assert any('"up\\n"' in line for line in process.stdout)
    os.kill(process.pid, signal.SIGKILL)
    process.stdout.close()
    process.wait()

    result = program.lines("--approve", "auto", "--thread", "t", "What came of it?")[-1]
    assert (result["text"], result["executions"]) == ("What happened?", [])
    assert (program.workspace / "results" / "log").read_text() == "ran\n"
    stored = (program.folder / ".code-agent" / "threads.sqlite").read_bytes()
    assert b"How far it came is unknown" in stored


def test_without_an_engine_the_model_is_told(program: Program) -> None:
    program.environment["DOCKER_HOST"] = "unix:///nonexistent/docker.sock"
    program.script(block("python", "print(1)"), "It cannot be run.", "It cannot.", "No.", "No, it cannot.")
    result = program.lines("--agent", "code", "--approve", "auto", "go", status=1)[-1]
    assert result["status"] == "no_execution"
    [(_, _, output, exit_code)] = executions(result)
    assert exit_code == 125
    assert "No Docker Engine answers" in output


@pytest.mark.docker
def test_a_script_is_played_by_the_deep_agent_unless_code_is_asked_for(program: Program) -> None:
    program.script(execute("echo hi"), call("ls", path="/data"), "done")
    for thread, choice in (("t", ()), ("auto", ("--agent", "auto")), ("deep", ("--agent", "deep"))):
        result = program.lines(*choice, "--approve", "auto", "--thread", thread, "go")[-1]
        assert [execution["code"] for execution in result["executions"]] == ["echo hi"]
    done = program.run("run", "--agent", "code", "--thread", "t", "go")
    assert done.returncode == 2
    assert "one of the deep agent" in done.stderr


def test_a_model_without_tools_is_not_for_the_deep_agent(program: Program) -> None:
    program.environment["MODEL"] = "local"
    done = program.run("run", "--agent", "deep", "go")
    assert done.returncode == 2
    assert "The model local cannot call tools" in done.stderr
    assert "--agent code" in done.stderr
    [result] = program.lines("--agent", "deep", "go", status=2)
    assert result["status"] == "error"
    assert result["text"] in done.stderr

    program.environment["MODEL"] = "scripted:script.yaml"
    program.script("Hello.", "Hello again.")
    assert program.lines("--agent", "deep", "--thread", "t", "hi")[-1]["text"] == "Hello."
    done = program.run("run", "--thread", "t", "--model", "local", "hi")
    assert done.returncode == 2
    assert "cannot call tools" in done.stderr
    assert "begin a new thread" in done.stderr


def test_unknown_agents_are_bad_usage(program: Program) -> None:
    program.script("hello")
    assert program.run("run", "--agent", "secret", "go").returncode == 2
    words = program.run("run", "--help").stdout
    assert "--agent" in words
