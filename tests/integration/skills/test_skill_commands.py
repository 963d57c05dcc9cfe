"""Commands of skills on PATH in the sandbox, and skills that `code-agent skills new` generates."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.middleware.skills.skill_template import write_library, write_skill
from tests.support.sandboxes import IMAGE

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.docker


def put_command(folder: Path, skill: str, name: str, says: str) -> None:
    file = folder / skill / "runtime" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\necho {says} $*\n")
    file.chmod(0o755)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("skills")
    for folder in ("skills", "team", "learned"):
        (root / folder).mkdir()
    put_command(root / "skills", "greet", "hello", "own")
    put_command(root / "skills", "greet", "ls", "shadowed")
    put_command(root / "team", "trusted", "team-hello", "team")
    put_command(root / "team", "trusted", "hello", "team")
    put_command(root / "team", "other", "untrusted", "other")
    put_command(root / "learned", "greet", "learned-hello", "learned")
    (root / "workspace" / "data").mkdir(parents=True)
    shutil.copy(ROOT / "workspace" / "data" / "sales.csv", root / "workspace" / "data")
    return root


@pytest.fixture(scope="module")
def sandbox(root: Path) -> Iterator[DockerExecutionBackend]:
    with DockerExecutionBackend(
        root / "workspace",
        skills_dir=root / "skills",
        extra_skills=[root / "team", root / "learned"],
        skills_trusted=["team/trusted"],
        name="test-commands",
        image=IMAGE,
    ) as backend:
        yield backend


def run(sandbox: DockerExecutionBackend, command: str) -> str:
    done = sandbox.execute(command)
    assert done.exit_code == 0, done.output
    return done.output


def run_block(sandbox: DockerExecutionBackend, code: str) -> str:
    return sandbox.sandbox.run_python(code, session="test").output


def test_command_of_a_skill_is_on_the_path(sandbox: DockerExecutionBackend) -> None:
    assert run(sandbox, "cd /tmp && hello 'a b'") == "own a b\n"
    assert run(sandbox, "python -c \"import subprocess; subprocess.run(['hello'])\"") == "own\n"
    assert run(sandbox, "learned-hello; team-hello") == "learned\nteam\n"


def test_skill_does_not_replace_a_program_of_the_system(sandbox: DockerExecutionBackend) -> None:
    assert "shadowed" not in run(sandbox, "ls /")
    path = run(sandbox, "echo $PATH").strip().split(":")
    assert path[-3:] == [
        "/skills.d/learned/greet/runtime",
        "/skills/greet/runtime",
        "/skills.d/team/trusted/runtime",
    ]


def test_untrusted_skill_has_no_command(sandbox: DockerExecutionBackend) -> None:
    assert sandbox.execute("untrusted").exit_code == 127
    assert run(sandbox, "/skills.d/team/other/runtime/untrusted") == "other\n"


def test_added_or_removed_command_takes_effect_at_once(sandbox: DockerExecutionBackend, root: Path) -> None:
    block = "import shutil; print(shutil.which('later'))"
    assert sandbox.execute("later").exit_code == 127
    assert run_block(sandbox, block) == "None\n"
    put_command(root / "skills", "new", "later", "later")
    assert run(sandbox, "later") == "later\n"
    assert run_block(sandbox, block) == "/skills/new/runtime/later\n"
    shutil.rmtree(root / "skills" / "new")
    assert sandbox.execute("later").exit_code == 127


def test_path_variable_that_a_block_sets_is_kept(sandbox: DockerExecutionBackend) -> None:
    run_block(sandbox, "import os; before = os.environ['PATH'] = '/mine:' + os.environ['PATH']")
    assert run_block(sandbox, "print(os.environ['PATH'] == before)") == "True\n"


@pytest.mark.parametrize("library", [False, True])
def test_new_skill_works_as_it_is_generated(
    sandbox: DockerExecutionBackend, root: Path, library: bool
) -> None:
    name = "fresh_library" if library else "fresh-skill"
    file = (write_library if library else write_skill)(root / "skills", name, "Counts lines.")
    text = file.read_text(encoding="utf-8")
    if library:
        (example,) = re.findall(r"Example:\n((?: {8}.*\n)+)", text)
        sandbox.write("/workspace/example.py", example.replace("        ", ""))
        assert run(sandbox, "cd /tmp && python /workspace/example.py") == "3506\n"
    else:
        (command,) = re.findall(r"```bash\n(.*)\n```", text)
        assert run(sandbox, command) == '{"file": "/data/sales.csv", "lines": 3506}\n'


def test_skills_in_the_home_folder_are_a_link_to_the_mounted_skills(sandbox: DockerExecutionBackend) -> None:
    assert (
        run(sandbox, "readlink /home/user/skills; /home/user/skills/greet/runtime/hello") == "/skills\nown\n"
    )
    assert sandbox.write("/home/user/skills/greet/x", "x").error
    assert sandbox.execute("touch /home/user/skills/x").exit_code == 1
