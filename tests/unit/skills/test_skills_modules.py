"""A skill that is one Python file, and the commands in the `runtime/` folder of a skill."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.skills.write_skills_readme import skills_readme
from libs.middleware.skills.skill_files import Skill, SkillFolders, discover_skills
from libs.middleware.skills.skill_validation import validate_skills

GOOD = '''"""Greets people.
Use when asked.

More about it.
"""

from pathlib import Path


def hi(name: str) -> str:
    """Greet one."""
    return f"{Path(name)}"


def _private() -> None: ...
'''


def messages(path: Path) -> list[str]:
    return [problem.message for problem in validate_skills(path)]


def test_module_with_a_docstring_is_a_skill(tmp_path: Path) -> None:
    (tmp_path / "greet.py").write_text(GOOD)
    (tmp_path / "_helper.py").write_text("")
    (tmp_path / "README.md").write_text("")
    assert discover_skills(tmp_path) == [Skill("greet", "Greets people. Use when asked.", "/skills/greet.py")]
    assert messages(tmp_path) == messages(tmp_path / "greet.py") == []
    assert skills_readme(tmp_path).endswith(
        "## greet\n\nGreets people. Use when asked.\n\n```python\nfrom skills.greet import hi\n```\n\n"
        "- `hi(name: str) -> str`  \n  Greet one.\n"
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.py", b"x = 1\n", "a.py has no docstring"),
        ("a.py", b'""" \n"""\n', "a.py has no docstring"),
        ("a.py", b'"""Does it."""\nx = (\n', "a.py is not Python: '(' was never closed (<unknown>, line 2)"),
        ("a.py", b'"""caf\xe9"""\n', "a.py is not Python: "),
        ("a.py", b"\0", "a.py is not Python: "),
        ("my-skill.py", GOOD.encode(), "my-skill.py cannot be imported"),
        ("class.py", GOOD.encode(), "class.py cannot be imported: class is a keyword of Python"),
    ],
)
def test_unusable_module_is_listed_with_its_reason(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    (skill,) = discover_skills(tmp_path)
    assert skill.name == name.removesuffix(".py")
    assert skill.problem
    assert skill.problem.startswith(message)
    assert messages(tmp_path) == [skill.problem]


def test_validation_reports_mistakes_of_modules_that_agents_tolerate(tmp_path: Path) -> None:
    (tmp_path / "Greet.py").write_text(GOOD)
    (tmp_path / "long.py").write_text(f'"""{"d" * 1025}"""')
    assert [(skill.problem, len(skill.description) > 1024) for skill in discover_skills(tmp_path)] == [
        (None, False)
    ] * 2
    assert messages(tmp_path) == [
        "Greet.py has upper-case letters",
        "description has 1,025 characters (limit 1,024)",
    ]


def test_module_and_folder_of_one_name(tmp_path: Path) -> None:
    (tmp_path / "greet.py").write_text(GOOD)
    (tmp_path / "greet").mkdir()
    (tmp_path / "greet" / "SKILL.md").write_text("---\nname: greet\ndescription: Greets.\n---\n")
    assert [(skill.path, skill.problem) for skill in discover_skills(tmp_path)] == [
        ("/skills/greet/SKILL.md", None),
        ("/skills/greet.py", "its name is already used by /skills/greet/SKILL.md"),
    ]
    assert len(messages(tmp_path)) == 1


def test_module_that_is_a_link_or_a_pipe_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text(GOOD)
    root = tmp_path / "skills"
    root.mkdir()
    (root / "a.py").symlink_to(tmp_path / "outside")
    os.mkfifo(root / "b.py")
    (root / "c.py").symlink_to("nowhere")
    for name in ("d.py", "loop"):
        (root / name).symlink_to(name)
    assert [skill.problem for skill in discover_skills(root)] == [
        "a.py is a link out of its folder",
        "b.py is not a regular file",
        "c.py is a link to nothing",
        "d.py cannot be read: Too many levels of symbolic links",
    ]


def test_module_from_outside_needs_trust_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "greet.py").write_text(GOOD)
    for trusted in (["greet"], ["team/greet"]):
        (skill,) = SkillFolders({"/skills.d/team": tmp_path}, trusted=trusted).scan()
        assert (skill.name, skill.description) == ("greet.py", "")
        assert "add team/greet.py to SKILLS_TRUSTED" in str(skill.problem)
    (skill,) = SkillFolders({"/skills.d/team": tmp_path}, trusted=["team/greet.py"]).scan()
    assert (skill.name, skill.problem) == ("greet", None)


def test_command_that_cannot_be_executed_is_a_problem(tmp_path: Path) -> None:
    runtime = tmp_path / "greet" / "runtime"
    (runtime / "folder").mkdir(parents=True)
    (tmp_path / "greet" / "SKILL.md").write_text("---\nname: greet\ndescription: Greets.\n---\n")
    for name, mode in (("good", 0o755), ("bad", 0o644), ("worse", 0o700)):
        (runtime / name).write_text("#!/bin/sh\n")
        (runtime / name).chmod(mode)
    assert [(problem.path.name, problem.message) for problem in validate_skills(tmp_path)] == [
        ("bad", "is a command that cannot be executed"),
        ("folder", "is not a file"),
        ("worse", "is a command that cannot be executed"),
    ]
