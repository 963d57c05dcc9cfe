"""The commands around `code-agent run`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from contextlib import closing
from pathlib import Path

import docker
import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.docker import connect
from tests.clients.cli_program import ROOT, Program


def test_help_and_commands_without_an_agent_import_no_langchain(program: Program) -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom agent.cli import app\n"
        "for command in (['--help'], ['skills', 'list'], ['model', 'which']):\n"
        "    assert CliRunner().invoke(app, command).exit_code == 0\n"
        "heavy = {'langchain', 'langchain_core', 'langgraph', 'deepagents', 'docker'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    program.script("hello")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=program.folder, env=program.env, capture_output=True, text=True
    )
    assert done.stdout == "[]\n", done.stderr
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert program.run("--version").stdout == f"code-agent {version}\n"


@pytest.mark.docker
@pytest.mark.parametrize(
    ("environment", "missing"),
    [
        ({}, {}),
        pytest.param({"SANDBOX_CPUS": "many"}, {"settings": ".env"}, marks=pytest.mark.thorough),
        (
            {"MODEL": "", "SANDBOX_IMAGE": "no-such-image", "SANDBOX_RUNTIME": "no-such-runtime"},
            {"model": "OPENAI_API_KEY", "image": "code-agent setup", "runtime": "make setup RUNTIME=runsc"},
        ),
        pytest.param(
            {"DOCKER_HOST": "unix:///nonexistent/docker.sock"},
            {"Docker Engine": "unset it"},
            marks=pytest.mark.thorough,
        ),
    ],
    ids=["nothing", "settings", "model, image and runtime", "Engine"],
)
def test_doctor_names_what_is_missing(
    program: Program, tmp_path: Path, environment: dict[str, str], missing: dict[str, str]
) -> None:
    program.script("hello")
    # Hides the local model, which may be on this machine.
    program.environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), **environment}
    done = program.run("doctor", "--json")
    checks = json.loads(done.stdout)["checks"]
    failed = {check["name"]: check["hint"] for check in checks if not check["ok"]}
    if not missing:
        default = connect().info()["DefaultRuntime"]
        assert {"runtime": f"{default}, the Engine's default"}.items() <= {
            c["name"]: c["detail"] for c in checks
        }.items()
        assert failed == {}
    assert done.returncode == (1 if missing else 0)
    assert {name: hint for name, hint in missing.items() if hint not in failed.get(name, "")} == {}
    assert "Traceback" not in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(
    "command", [pytest.param(("setup",), marks=pytest.mark.thorough), ("sandbox", "ls")], ids=" ".join
)
def test_command_without_an_engine_says_so(program: Program, command: tuple[str, ...]) -> None:
    program.environment["DOCKER_HOST"] = "unix:///nonexistent/docker.sock"
    done = program.run(*command)
    assert done.returncode == 1
    assert "No Docker Engine answers" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.thorough
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
    assert skills["/skills.d/more/good/SKILL.md"]["problem"] is None
    assert skills["/skills.d/more/bad/SKILL.md"]["problem"]

    done = program.run("skills", "validate")
    assert done.returncode == 1
    assert "no front matter" in done.stdout
    assert program.run("skills", "validate", str(ROOT / "skills")).returncode == 0


@pytest.mark.thorough
@pytest.mark.docker
@pytest.mark.timeout(600)
def test_setup_builds_the_image_and_names_each_step(program: Program) -> None:
    """If the base and the layers of the usual image are there, the build takes seconds; otherwise minutes."""
    image = program.environment["SANDBOX_IMAGE"] = f"code-execution-agent-test-setup-{os.getpid()}"
    try:
        done = program.run("setup", timeout=500)
        assert done.returncode == 0, done.stderr
        assert "\n  Step 2/" in done.stdout
        assert f"Ready: Docker Engine answers, image {image} is built in" in done.stdout
        ready, join = program.run("setup", "--node").stdout.splitlines()
        assert ready == f"Ready: Docker Engine answers, image {image} is current."
        command = "ray start --address=SERVER:6379 --num-cpus=0 --resources='{\"sandbox\": 50}'"
        assert command.replace("SERVER", "HEAD") in join
        assert command in (ROOT / "docs" / "cluster.md").read_text()
    finally:
        with closing(docker.from_env()) as client:
            if client.images.list(name=image):
                client.images.remove(image)


@pytest.mark.thorough
@pytest.mark.docker
def test_sandboxes_are_listed_and_removed_by_name(program: Program, tmp_path: Path) -> None:
    image = program.env.get("SANDBOX_IMAGE", "code-execution-agent")
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
        assert set(rows) == set(names), "only containers of this workspace are listed"
        done = program.run("sandbox", "reset", names[0])
        assert done.returncode == 0, done.stderr
        assert f"removing {names[0]} (its owner is alive)" in done.stdout
        assert second.execute("true").exit_code == 0
        listed = {row["name"] for row in json.loads(program.run("sandbox", "ls", "--json").stdout)}
        assert names[0] not in listed
        assert names[1] in listed
        assert program.run("sandbox", "reset", names[0]).returncode == 2
