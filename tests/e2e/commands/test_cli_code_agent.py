"""`code-agent run --agent code`: blocks are shown, approved, run and resumed."""

from __future__ import annotations

import pytest

from tests.clients.cli_program import Program


def block(language: str, code: str, words: str = "I look.") -> str:
    return f"{words}\n```{language}\n{code}\n```"


@pytest.mark.docker
@pytest.mark.thorough
def test_blocks_and_plots_are_printed(program: Program) -> None:
    plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint('drawn')"
    program.script(block("python", plot), "Here is the plot.")

    done = program.run("run", "--agent", "code", "--approve", "auto", "plot it")

    assert done.returncode == 0, done.stderr
    assert ", code agent, model scripted:script.yaml" in done.stdout
    assert done.stdout.count("plt.plot([1, 2])") == 1, "code of the reply is shown once"
    assert ">>> import matplotlib.pyplot as plt … (3 lines)\n  │ drawn\n" in done.stdout
    [made] = (program.workspace / "results").glob("*.png")
    assert f"+ results/{made.name}  (plot)" in done.stdout
    assert f"Plot: results/{made.name}" in done.stdout
    assert done.stdout.count("Here is the plot.") == 1
    assert "\x1b" not in done.stdout


@pytest.mark.docker
@pytest.mark.thorough
def test_pending_blocks_run_once_and_the_thread_keeps_its_agent(program: Program) -> None:
    program.script(
        block("python", "print('a', file=open('/results/log', 'a'))")
        + block("bash", "\necho b >> /results/log", "\n"),
        "Both are written.",
        *["Nothing to do."] * 2,
    )
    lines = program.lines("--agent", "code", "--thread", "t", "write", status=3)
    [approval] = [line for line in lines if line["type"] == "approval"]
    assert [request["name"] for request in approval["action_requests"]] == ["execute_code"] * 2
    assert (lines[-1]["status"], lines[-1]["executions"], program.log) == ("interrupted", [], "")

    done = program.run("run", "--agent", "deep", "--thread", "t")
    assert done.returncode == 2
    assert "'t' is one of the code agent" in done.stderr

    result = program.lines("--thread", "t", "--approve", "auto")[-1]
    assert (result["status"], result["text"]) == ("completed", "Both are written.")
    assert [execution["language"] for execution in result["executions"]] == ["python", "bash"]
    assert program.lines("--thread", "t", "hello")[-1]["text"] == "Nothing to do."
    assert program.log == "a\nb\n"


@pytest.mark.docker
def test_blocks_are_approved_one_by_one(program: Program) -> None:
    program.script(
        block("python", "a = 1\nopen('/results/a', 'w').close()") + "\n" + block("bash", "touch /results/b"),
        "I leave it at a.",
    )
    terminal = program.at_terminal("run", "--agent", "code", "--thread", "t", "go")
    for number, code, answer in (
        (1, "a = 1\n  open('/results/a', 'w').close()", "a\n"),
        (2, "touch /results/b", "r\n"),
    ):
        terminal.wait_for(f"Waits for approval ({number} of 2):")
        terminal.wait_for(code)
        terminal.wait_for("[q]uit and leave it pending:")
        assert not (program.workspace / "results" / "a").exists()
        terminal.type(answer)
    terminal.wait_for("Why not?")
    terminal.type("b is taken\n")
    terminal.wait_for("I leave it at a.")
    assert terminal.end() == 0
    assert [path.name for path in (program.workspace / "results").iterdir()] == ["a"]
    stored = (program.folder / ".code-agent" / "threads.sqlite").read_bytes()
    assert b"A person refused it: b is taken" in stored


@pytest.mark.docker
@pytest.mark.thorough
def test_each_end_has_its_exit_status(program: Program) -> None:
    program.script(*["```\nprint(4711)\n```"] * 4)
    done = program.run("run", "--agent", "code", "sum up /data/sales.csv")
    assert done.returncode == 1
    assert done.stdout.count("no code was run") == 1, "the last message is shown although it is not streamed"
    program.script(*[block("python", f"print({number})") for number in range(10)])
    result = program.lines("--agent", "code", "--approve", "auto", "count", status=4)[-1]
    assert result["status"] == "max_steps"
    assert "10 steps are used up" in result["text"]


@pytest.mark.thorough
def test_deep_agent_refuses_a_model_without_tool_calls(program: Program) -> None:
    program.environment["MODEL"] = "local"
    [result] = program.lines("--agent", "deep", "go", status=2)
    assert "The model local cannot call tools" in result["text"]
    assert "--agent code" in result["text"]
