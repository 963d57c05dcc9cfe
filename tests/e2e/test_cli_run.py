"""`code-agent run` without a terminal: what it prints, what it leaves, how it ends, how it goes on."""

from __future__ import annotations

import pytest
from cli_program import Program, call, check_lines, execute

pytestmark = pytest.mark.docker


def test_json_tells_everything_in_order(program: Program) -> None:
    code = "echo one; echo two >&2; echo x > /results/plot.png; exit 3"
    program.script(execute(code), call("write_file", file_path="/scripts/a.py", content="1"), "All done.")

    lines = program.lines("--approve", "auto", "go")

    [command] = [line for line in lines if line["type"] == "command"]
    assert (command["language"], command["code"]) == ("bash", code)
    outputs = [line for line in lines if line["type"] == "output"]
    assert "".join(line["text"] for line in outputs) == "one\ntwo\n"
    assert outputs[-1]["exit_code"] == 3
    files = [(line["path"], line["plot"]) for line in lines if line["type"] == "file"]
    assert files == [("results/plot.png", True), ("scripts/a.py", False)]
    result = lines[-1]
    assert (result["status"], result["text"]) == ("completed", "All done.")
    assert result["files"] == ["results/plot.png", "scripts/a.py"]
    [execution] = result["executions"]
    assert execution["output"] == "one\ntwo\n"
    assert (execution["code"], execution["exit_code"]) == (code, 3)
    assert 0 < execution["seconds"] < 60
    types = [line["type"] for line in lines]
    assert types.index("message") < types.index("command") < types.index("output") < types.index("file")


def test_a_person_reads_each_step(program: Program) -> None:
    plan = call("write_todos", todos=[{"content": "Look around", "status": "in_progress"}])
    run = execute("echo from the sandbox; touch /results/chart.png; false")
    program.script(plan, run, "The [bold]answer[/bold] is :smile: 42.")

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


def test_output_is_shown_while_the_command_runs(program: Program) -> None:
    program.script(execute("echo early; sleep 5; echo late"), "done")
    process = program.start("run", "--approve", "auto", "--json", "go")
    assert process.stdout is not None
    for line in process.stdout:
        if "early" in line and '"output"' in line:
            break
    assert process.poll() is None
    rest = process.stdout.read()
    assert process.wait(30) == 0
    process.stdout.close()
    assert '"text": "late\\n"' in rest


def test_nothing_that_is_printed_can_steer_the_terminal(program: Program) -> None:
    attack = r"printf 'a\033]0;title\007b\033[2Jc\033[31mred\033[0m\rd\tq\n\302\233x\342\200\256y'"
    program.script(execute(attack), "Model: \x1b[2J\x1b]52;c;x\x07 end")

    done = program.run("run", "--approve", "auto", "go")

    assert done.returncode == 0, done.stderr
    assert not set(done.stdout) & {
        chr(code) for code in (*range(9), *range(11, 32), *range(127, 160), 0x202E)
    }
    assert "a‹U+001B›]0;title‹U+0007›b‹U+001B›[2Jcred\n" in done.stdout
    assert "d\tq" in done.stdout
    assert "‹U+009B›x‹U+202E›y" in done.stdout


def test_output_of_subagents_and_of_parallel_commands_is_told_apart(program: Program) -> None:
    one, two = execute("echo one; sleep 1; echo uno"), execute("sleep 0.5; echo two")
    program.script([one, two], "done")
    lines = program.lines("--approve", "auto", "go")
    outputs = {execution["code"]: execution["output"] for execution in lines[-1]["executions"]}
    assert outputs == {one["args"]["command"]: "one\nuno\n", two["args"]["command"]: "two\n"}
    for command in (line for line in lines if line["type"] == "command"):
        live = [line["text"] for line in lines if line["type"] == "output" and line["id"] == command["id"]]
        assert "".join(live) == outputs[command["code"]]


def test_without_a_terminal_nothing_runs_unasked(program: Program) -> None:
    program.script(execute("echo ran >> /results/log"), "finished")

    done = program.run("run", "--thread", "my thread", "--model", "scripted:script.yaml", "go")

    assert done.returncode == 3
    assert "command: echo ran >> /results/log" in done.stdout
    assert "code-agent run --thread 'my thread' --model scripted:script.yaml --approve auto" in done.stdout
    assert not (program.workspace / "results" / "log").exists()

    for _ in range(2):  # asking again changes nothing
        lines = program.lines("--thread", "my thread", status=3)
        [approval] = [line for line in lines if line["type"] == "approval"]
        assert approval["action_requests"][0]["args"] == {"command": "echo ran >> /results/log"}
        assert lines[-1]["status"] == "interrupted"
        assert lines[-1]["executions"] == []
    assert not (program.workspace / "results" / "log").exists()

    lines = program.lines("--thread", "my thread", "--approve", "auto")
    assert lines[-1]["text"] == "finished"
    assert [execution["exit_code"] for execution in lines[-1]["executions"]] == [0]
    assert (program.workspace / "results" / "log").read_text() == "ran\n"

    done = program.run("run", "--thread", "my thread", "--approve", "auto")
    assert done.returncode == 2
    assert "Nothing is pending" in done.stderr
    assert (program.workspace / "results" / "log").read_text() == "ran\n"


def test_a_new_task_drops_what_waits(program: Program) -> None:
    program.script(execute("touch /results/a"), "Answer to the second task.")
    thread = program.lines("first task", status=3)[-1]["thread_id"]
    lines = program.lines("--thread", thread, "second task")
    assert lines[-1]["text"] == "Answer to the second task."
    assert not (program.workspace / "results" / "a").exists()


def test_a_thread_remembers_across_programs(program: Program) -> None:
    program.script("first answer", "second answer")
    thread = program.lines("one")[-1]["thread_id"]
    lines = program.lines("--thread", thread, "two")
    assert [line["text"] for line in lines if line["type"] == "message"] == ["second answer"]
    assert lines[-1]["thread_id"] == thread


def test_a_budget_has_its_own_exit_status(program: Program) -> None:
    program.environment["RUN_MAX_CALLS"] = "1"
    program.script(execute("touch /results/a"), "never said")
    result = program.lines("--approve", "auto", "go", status=4)[-1]
    assert result["status"] == "budget_calls"
    assert "RUN_MAX_CALLS" in result["text"]
    done = program.run("run", "--approve", "auto", "go")
    assert done.returncode == 4
    assert "RUN_MAX_CALLS" in done.stdout


def test_only_files_of_the_workspace_are_named(program: Program) -> None:
    (program.workspace / "data").mkdir(parents=True)
    (program.workspace / "data" / "old.csv").write_text("1")
    make = "ln -s /etc /results/etc; mkfifo /results/pipe; echo 2 > /data/old.csv; "
    make += "touch $'/results/\\xff\\n.txt'"
    program.script(execute(make), "done")
    done = program.run("run", "--approve", "auto", "--json", "go")
    assert done.returncode == 0, done.stderr
    assert check_lines(done.stdout)[-1]["files"] == ["data/old.csv", "results/\udcff\n.txt"]
    assert program.run("run", "--approve", "auto", "go").returncode == 0


def test_a_secret_that_was_let_in_is_nowhere_in_what_is_said_or_kept(program: Program) -> None:
    token = "cnry-Zx8Kq3Vn5Rt7Yw2"
    program.environment = {"MY_TOKEN": token, "SANDBOX_ENV_ALLOW": "MY_*"}
    (program.folder / ".env").write_text("OPENAI_API_KEY=sk-canary-Ab12Cd34\n")
    program.script(
        execute(
            'echo "a $MY_TOKEN"; touch "/results/$MY_TOKEN.png"; sleep 0.3; echo sk-canary-"Ab12Cd34" >&2'
        ),
        call("ls", path="/results"),
        "Done: ls shows [REDACTED].png.",
    )
    done = program.run("run", "--json", "--approve", "auto", "go")
    assert done.returncode == 0, done.stderr
    lines = check_lines(done.stdout)
    outputs = [line for line in lines if line["type"] == "output"]
    assert "".join(line["text"] for line in outputs) == "a [REDACTED]\n[REDACTED]\n"
    assert [line["path"] for line in lines if line["type"] == "file"] == ["results/[REDACTED].png"]
    assert lines[-1]["files"] == ["results/[REDACTED].png"]
    assert lines[-1]["executions"][0]["output"] == "a [REDACTED]\n[REDACTED]\n"
    kept = b"".join(
        file.read_bytes() for file in (program.folder / ".code-agent").iterdir() if file.is_file()
    )
    assert b"[REDACTED]" in kept
    for told in (done.stdout, done.stderr, kept.decode("latin-1")):
        assert token not in told
