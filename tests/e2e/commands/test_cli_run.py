"""`code-agent run` without a terminal: output, files, exit status, resumed threads."""

from __future__ import annotations

import pytest

from tests.clients.cli_program import Program, call, execute

pytestmark = pytest.mark.docker


@pytest.mark.thorough
def test_json_lines_come_in_order(program: Program) -> None:
    code = "echo one; echo two >&2; echo x > /results/plot.png; exit 3"
    program.script(execute(code), call("write_file", file_path="/scripts/a.py", content="1"), "All done.")

    lines = program.lines("--approve", "auto", "go")

    outputs = [line for line in lines if line["type"] == "output"]
    assert "".join(line["text"] for line in outputs) == "one\ntwo\n"
    assert outputs[-1]["exit_code"] == 3
    files = [(line["path"], line["plot"]) for line in lines if line["type"] == "file"]
    assert files == [("results/plot.png", True), ("scripts/a.py", False)]
    result = lines[-1]
    assert (result["status"], result["text"]) == ("completed", "All done.")
    assert result["files"] == ["results/plot.png", "scripts/a.py"]
    [done] = result["executions"]
    assert (done["language"], done["code"]) == ("bash", code)
    assert (done["output"], done["exit_code"]) == ("one\ntwo\n", 3)
    types = [line["type"] for line in lines]
    assert types.index("message") < types.index("command") < types.index("output") < types.index("file")


def test_each_step_is_printed(program: Program) -> None:
    plan = call("write_todos", todos=[{"content": "Look around", "status": "in_progress"}])
    run = execute("echo from the sandbox; touch /results/chart.png; false")
    program.script(plan, run, "The [bold]answer[/bold] is :smile: 42.", "an answer to a further message")

    done = program.run("run", "--approve", "auto", "go")

    assert done.returncode == 0, done.stderr
    for expected in (
        "scripted:script.yaml (a script that is played, not a model)",
        "Approvals are off",
        "› Look around",
        "$ echo from the sandbox; touch /results/chart.png; false",
        "│ from the sandbox",
        "exit 1, ",
        "+ results/chart.png  (plot)",
        "The [bold]answer[/bold] is :smile: 42.",
        "Plot: results/chart.png",
        "code-agent run --thread",
    ):
        assert expected in done.stdout
    assert done.stdout.count("is :smile: 42") == 1
    assert "\x1b" not in done.stdout


@pytest.mark.thorough
def test_absent_paths_of_the_task_are_named_at_the_end(program: Program) -> None:
    task = "Copy /data/people.csv to /results/copy.csv and /tmp/copy.csv."
    program.script(execute("echo made up | tee /results/copy.csv > /tmp/copy.csv"), "Done.", "Done.")

    result = program.lines("--approve", "auto", "--thread", "1", task)[-1]
    assert (result["status"], result["absent_paths"]) == ("completed", ["/data/people.csv"])

    done = program.run("run", "--approve", "auto", "--thread", "1", "And /data/people.csv?")
    assert done.stdout.count("is not there") == done.stdout.count("\n/data/people.csv is not there.\n") == 1


@pytest.mark.thorough
def test_nothing_runs_without_a_terminal(program: Program) -> None:
    program.script(execute("echo ran >> /results/log"), "finished")

    done = program.run("run", "--thread", "my thread", "--model", "scripted:script.yaml", "go")

    assert done.returncode == 3
    assert "command: echo ran >> /results/log" in done.stdout
    assert "code-agent run --thread 'my thread' --model scripted:script.yaml --approve auto" in done.stdout

    assert program.log == ""
    lines = program.lines("--thread", "my thread", "--approve", "auto")
    assert lines[-1]["text"] == "finished"
    done = program.run("run", "--thread", "my thread", "--approve", "auto")
    assert done.returncode == 2
    assert "Nothing is pending" in done.stderr
    assert program.log == "ran\n"


@pytest.mark.thorough
def test_used_up_budget_exits_with_4(program: Program) -> None:
    program.environment["RUN_MAX_CALLS"] = "1"
    program.script(execute("touch /results/a"), "never said")
    done = program.run("run", "--approve", "auto", "go")
    assert done.returncode == 4
    assert "RUN_MAX_CALLS" in done.stdout
