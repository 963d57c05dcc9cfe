"""Mounts: a workspace that host and sandbox change, and skills that only the host changes."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend
from tests.support.sandboxes import IMAGE, NEW_SANDBOX

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[3]


def inside(backend: DockerExecutionBackend, command: str) -> str:
    answer = backend.execute(command)
    assert answer.exit_code == 0, answer.output
    return answer.output


def test_host_and_sandbox_change_files_of_each_other(
    backend: DockerExecutionBackend, workspace: Path
) -> None:
    inside(backend, "mkdir -p /results/inside/deep; echo inside > /results/inside/deep/file")
    made = workspace / "results/inside/deep/file"
    made.write_text("changed on the host\n")
    (made.parent / "new").write_text("from the host\n")
    (workspace / "data/outside").mkdir()
    (workspace / "data/outside/file").write_text("outside\n")
    assert inside(backend, "cat /results/inside/deep/file") == "changed on the host\n"
    inside(backend, "echo changed inside > /data/outside/file; echo more > /data/outside/new")
    inside(backend, "echo changed inside > /results/inside/deep/new")
    assert (workspace / "data/outside/file").read_text() == "changed inside\n"
    inside(backend, "mv /data/outside /data/moved; rm -r /data/moved /results/inside")
    assert not (workspace / "data/outside").exists()
    assert not made.parent.exists()


def test_sandbox_runs_as_the_owner_of_the_workspace(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs the right to give a folder away")
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, 1001, 1001)
    with DockerExecutionBackend(folder, name="mounts", image=IMAGE) as backend:
        assert inside(backend, "id -u; id -g") == "1001\n1001\n"
        assert inside(backend, "whoami; id -un; id -gn") == "agent\nagent\nagent\n"
        assert inside(backend, "python3 -c 'import getpass; print(getpass.getuser())'") == "agent\n"
        assert inside(
            backend, 'python3 -c "import pathlib; print(pathlib.Path.home())"; echo $HOME'
        ).split() == ([inside(backend, "echo ~").strip()] * 2)
        inside(backend, "cd ~; echo x > kept; cat kept; touch /results/made")
        plot = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.savefig('/results/plot.png')"
        # Nothing on stderr, because a model would read it.
        assert inside(backend, f'python3 -c "{plot}"') == ""
    assert (folder / "results/made").stat().st_uid == 1001
    assert (folder / "results/plot.png").read_bytes().startswith(b"\x89PNG")


def tree_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if "__pycache__" not in path.parts:  # the host may compile modules here
            digest.update(str(path).encode() + oct(path.lstat().st_mode).encode())
            digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


@pytest.fixture
def own_skills(tmp_path: Path) -> Path:
    """Skills that belong to the sandbox's user, like the skills of a person who is not root."""
    skills = tmp_path / "skills"
    shutil.copytree(ROOT / "skills", skills, ignore=shutil.ignore_patterns("__pycache__"))
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", "1000:1000", skills], check=True)
    return skills


def test_attacks_on_skills_change_no_byte(own_skills: Path, tmp_path: Path) -> None:
    """Each attack changes a copy of the skills. The mount protects them, not their owner."""
    before = tree_hash(own_skills)
    copy = tmp_path / "workspace" / "copy"
    attacks = (
        "rm -rf /skills/* /skills/.[!.]*",
        "find /skills -type f -exec sh -c 'echo x >> \"$1\"' _ {} \\;",
        "touch /skills/new",
        "mkdir /skills/new",
        "chmod -R 777 /skills",
        "mv /skills /workspace/stolen",
        "ln -s /workspace /skills/link",
        "cp /bin/sh /skills/.hidden",
        "python3 -c \"open('/skills/csv-analytics/SKILL.md', 'r+').write('x')\"",
    )
    with DockerExecutionBackend(
        tmp_path / "workspace", skills_dir=own_skills, name="mounts", image=IMAGE
    ) as backend:
        assert inside(backend, "find /skills ! -user $(id -u)") == ""
        for attack in attacks:
            inside(backend, "rm -rf /workspace/copy /workspace/stolen; cp -r /skills /workspace/copy")
            whole = tree_hash(copy)
            inside(backend, attack.replace("/skills", "/workspace/copy"))
            assert tree_hash(copy) != whole, attack
            answer = backend.execute(f"LC_ALL=C; {attack}")
            assert answer.exit_code != 125, answer.output
            assert re.search("read-only file system", answer.output, re.IGNORECASE), answer.output
            assert tree_hash(own_skills) == before, attack


def test_change_of_a_skill_on_the_host_is_visible_at_once(tmp_path: Path) -> None:
    skills = tmp_path / "skills"
    (skills / "one").mkdir(parents=True)
    skill = skills / "one" / "SKILL.md"
    skill.write_text("first")
    with DockerExecutionBackend(tmp_path / "w", skills_dir=skills, name="mounts", image=IMAGE) as backend:
        assert inside(backend, "cat /skills/one/SKILL.md") == "first"
        skill.write_text("second")
        (skills / "two").mkdir()
        assert inside(backend, "cat /skills/one/SKILL.md; ls /skills") == "secondone\ntwo\n"
        replacement = skills / "one" / "new"
        replacement.write_text("third")
        replacement.rename(skill)
        assert inside(backend, "cat /skills/one/SKILL.md") == "third"


def test_extra_skill_folders_have_their_own_mounts(tmp_path: Path) -> None:
    for name in ("team", "public"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text(name)
    extra = (tmp_path / "team", tmp_path / "public")
    with DockerExecutionBackend(tmp_path / "w", extra_skills=extra, name="mounts", image=IMAGE) as backend:
        assert inside(backend, "cat /skills.d/team/x /skills.d/public/x") == "teampublic"
        assert backend.execute("touch /skills.d/team/y").exit_code == 1


@pytest.mark.parametrize("how", ["cp -p {} {}", "mv {} {}"])
def test_copied_files_are_readable_at_once_and_writable_after_the_next_start(
    backend: DockerExecutionBackend, workspace: Path, tmp_path: Path, how: str
) -> None:
    inside(backend, "true")
    (tmp_path / "folder/inner").mkdir(parents=True)
    (tmp_path / "folder/inner/file").write_text("old\n")
    (tmp_path / "source").write_text("old\n")
    (tmp_path / "source").chmod(0o644)
    for name in ("source", "folder"):
        command = how.replace("cp", "cp -r").format(tmp_path / name, workspace / "data" / name)
        subprocess.run(command, shell=True, check=True)
    assert inside(backend, "cat /data/source /data/folder/inner/file") == "old\nold\n"
    backend.reset()
    appended = inside(backend, "echo new >> /data/source; cat /data/source")
    assert appended == f"{NEW_SANDBOX}old\nnew\n"
    assert backend.edit("/data/folder/inner/file", "old", "new").error is None
    assert backend.write("/data/folder/inner/made", "x").error is None
    inside(backend, "rm -r /data/source /data/folder")
