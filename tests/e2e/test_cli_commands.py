"""The commands around `code-agent run`."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from cli_program import ROOT, Program

from libs.backends.docker import DockerExecutionBackend


def test_help_is_quick_and_loads_no_agent(program: Program) -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom agent.cli import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "heavy = {'langchain', 'langchain_core', 'langgraph', 'deepagents', 'docker'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=program.env, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_version_and_help(program: Program) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert program.run("--version").stdout == f"code-agent {version}\n"
    words = program.run("run", "--help").stdout
    for word in ("--approve", "--model", "--thread", "--json", "Exit status"):
        assert word in words


@pytest.mark.docker
def test_doctor_finds_nothing_missing(program: Program) -> None:
    program.script("hello")
    done = program.run("doctor", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0, report
    assert report["ok"]
    names = {check["name"] for check in report["checks"]}
    assert names >= {"settings", "model", "skills", "Docker Engine", "image", "workspace"}
    assert program.run("doctor").returncode == 0


@pytest.mark.parametrize(
    ("environment", "name", "hint"),
    [
        ({"MODEL": ""}, "model", "OPENAI_API_KEY"),
        ({"MODEL": "scripted:gone.yaml"}, "model", ""),
        ({"SANDBOX_CPUS": "many"}, "settings", ".env"),
        ({"SANDBOX_IMAGE": "no-such-image"}, "image", "code-agent setup"),
        ({"DOCKER_HOST": "unix:///nonexistent/docker.sock"}, "Docker Engine", "docker"),
    ],
)
def test_doctor_says_what_is_missing(
    program: Program, environment: dict[str, str], name: str, hint: str, tmp_path: Path
) -> None:
    program.script("hello")
    # Without the local model, which may be on this machine.
    program.environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), **environment}
    done = program.run("doctor", "--json")
    assert done.returncode == 1
    [check] = [check for check in json.loads(done.stdout)["checks"] if check["name"] == name]
    assert not check["ok"]
    assert hint in check["hint"]
    shown = program.run("doctor")
    assert shown.returncode == 1
    assert f"MISSING\t{name}\t" in shown.stdout
    assert "Traceback" not in shown.stderr


@pytest.mark.docker
def test_setup_has_nothing_left_to_do(program: Program) -> None:
    done = program.run("setup")
    assert done.returncode == 0, done.stderr
    assert "Ready" in done.stdout


def test_setup_says_why_it_cannot(program: Program) -> None:
    program.environment["DOCKER_HOST"] = "unix:///nonexistent/docker.sock"
    done = program.run("setup")
    assert done.returncode == 1
    assert "No Docker Engine answers" in done.stderr
    assert "Traceback" not in done.stderr


def test_skills_are_listed_and_validated(program: Program, tmp_path: Path) -> None:
    good, bad = tmp_path / "more" / "good", tmp_path / "more" / "bad"
    for folder, text in ((good, "---\nname: good\ndescription: Does good.\n---\n"), (bad, "nothing")):
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(text)
    program.environment["SKILLS_DIRS"] = str(tmp_path / "more")
    untrusted = {skill["path"]: skill for skill in json.loads(program.run("skills", "list", "--json").stdout)}
    assert "SKILLS_TRUSTED" in untrusted["/skills.d/more/good/SKILL.md"]["problem"]
    program.environment["SKILLS_TRUSTED"] = "more/good"

    skills = {skill["path"]: skill for skill in json.loads(program.run("skills", "list", "--json").stdout)}
    assert skills["/skills/csv-analytics/SKILL.md"]["problem"] is None
    assert skills["/skills.d/more/good/SKILL.md"]["description"] == "Does good."
    assert skills["/skills.d/more/bad/SKILL.md"]["problem"]
    assert "UNUSABLE" in program.run("skills", "list").stdout

    done = program.run("skills", "validate")
    assert done.returncode == 1
    assert "no front matter" in done.stdout
    assert program.run("skills", "validate", str(good)).returncode == 0
    assert program.run("skills", "validate", str(ROOT / "skills")).returncode == 0


@pytest.mark.docker
def test_sandboxes_are_listed_and_removed_by_name(program: Program, tmp_path: Path) -> None:
    image = program.environment.get("SANDBOX_IMAGE") or program.env.get(
        "SANDBOX_IMAGE", "code-execution-agent"
    )
    with (
        DockerExecutionBackend(program.workspace, name="first", image=image) as first,
        DockerExecutionBackend(program.workspace, name="second", image=image) as second,
        DockerExecutionBackend(tmp_path / "other", name="third", image=image) as elsewhere,
    ):
        assert elsewhere.execute("true").exit_code == 0
        names = []
        for backend in (first, second):
            assert backend.execute("true").exit_code == 0
            names.append(str(backend.sandbox.container_name))
        rows = {row["name"]: row for row in json.loads(program.run("sandbox", "ls", "--json").stdout)}
        assert rows[names[0]]["owner"] == rows[names[1]]["owner"] == "alive"
        assert set(rows) == set(names), "those of other workspaces are none of its business"
        assert f"{names[0]}\t" in program.run("sandbox", "ls").stdout

        done = program.run("sandbox", "reset", names[0])
        assert done.returncode == 0, done.stderr
        assert f"removing {names[0]} (its owner is alive)" in done.stdout
        assert second.execute("true").exit_code == 0
        listed = {row["name"] for row in json.loads(program.run("sandbox", "ls", "--json").stdout)}
        assert names[0] not in listed
        assert names[1] in listed
        assert program.run("sandbox", "reset", names[0]).returncode == 2


@pytest.mark.docker
def test_the_demo_that_is_shipped_runs_to_its_end(program: Program) -> None:
    data = program.workspace / "data"
    data.mkdir(parents=True)
    (data / "sales.csv").write_bytes((ROOT / "workspace" / "data" / "sales.csv").read_bytes())
    demo = ROOT / "agent" / "demo.yaml"
    program.environment["MODEL"] = ""
    result = program.lines("--approve", "auto", "--model", f"scripted:{demo}", "go")[-1]
    assert result["status"] == "completed"
    assert {execution["exit_code"] for execution in result["executions"]} == {0}
    assert "results/revenue_by_month.png" in result["files"]


def test_commands_that_only_look_say_it_when_no_engine_answers(program: Program) -> None:
    program.environment["DOCKER_HOST"] = "unix:///nonexistent/docker.sock"
    for command in ("ls", "reset"):
        done = program.run("sandbox", command)
        assert done.returncode == 1
        assert "No Docker Engine answers" in done.stderr
