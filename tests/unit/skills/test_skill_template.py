"""`write_skill`: the new skill is valid and runs; a refused skill leaves no file."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent.cli import app
from agent.skills.write_skills_readme import skills_readme
from libs.middleware.skills.skill_prompt import render_skills
from libs.middleware.skills.skill_template import write_library, write_skill
from libs.middleware.skills.skill_validation import validate_skills
from libs.middleware.skills.skills_middleware import discover_skills


@pytest.mark.parametrize("name", ["unit-conversion", "café", "no", "n" * 64])
def test_new_skill_is_valid_and_found(tmp_path: Path, name: str) -> None:
    file = write_skill(tmp_path / "skills", name, 'Does: it. Use "when" asked #1.\n- now')
    assert file == tmp_path / "skills" / name / "SKILL.md"
    assert validate_skills(tmp_path / "skills") == []
    (skill,) = discover_skills(tmp_path / "skills")
    assert (skill.name, skill.description) == (name, 'Does: it. Use "when" asked #1. - now')
    assert f"python /skills/{name}/scripts/run.py" in file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "description", "message"),
    [
        ("", "Does it.", "name is missing"),
        ("../a", "Does it.", "not lower-case letters"),
        ("n" * 65, "Does it.", "limit 64"),
        ("a", "d" * 1025, "limit 1,024"),
    ],
)
def test_wrong_values_are_refused(tmp_path: Path, name: str, description: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        write_skill(tmp_path, name, description)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("library", [False, True])
def test_skill_without_a_description_is_refused_until_it_is_written(tmp_path: Path, library: bool) -> None:
    file = (write_library if library else write_skill)(tmp_path, "convert")
    (skill,) = discover_skills(tmp_path)
    (problem,) = validate_skills(tmp_path)
    assert (skill.problem, problem.path) == (problem.message, file)
    assert problem.message in ("description is empty", "convert.py has no docstring")
    assert "**convert**" not in render_skills([skill], max_chars=2_000)

    before, written = (
        ('""""""', '"""Converts."""') if library else ("description: ''", "description: Converts.")
    )
    file.write_text(file.read_text(encoding="utf-8").replace(before, written), encoding="utf-8")
    assert validate_skills(tmp_path) == []
    assert [(skill.name, skill.description) for skill in discover_skills(tmp_path)] == [
        ("convert", "Converts.")
    ]


def test_new_library_is_valid_and_listed_in_the_readme(tmp_path: Path) -> None:
    file = write_library(tmp_path, "unit_conversion", 'Does: it. Use "when" asked \\ "')
    assert file == tmp_path / "unit_conversion.py"
    assert validate_skills(tmp_path) == validate_skills(file) == []
    (skill,) = discover_skills(tmp_path)
    assert (skill.name, skill.description) == ("unit_conversion", 'Does: it. Use "when" asked \\ "')
    assert skill.path == "/skills/unit_conversion.py"
    assert "from skills.unit_conversion import count_lines\n" in skills_readme(tmp_path)
    for name, message in (("unit_conversion", "exists already"), ("unit-conversion", "cannot be imported")):
        with pytest.raises(ValueError, match=message):
            write_library(tmp_path, name, "Second.")


def test_existing_skill_is_left_alone(tmp_path: Path) -> None:
    before = write_skill(tmp_path, "a", "First.").read_bytes()
    with pytest.raises(ValueError, match="exists already"):
        write_skill(tmp_path, "a", "Second.")
    assert (tmp_path / "a" / "SKILL.md").read_bytes() == before
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="exists already"):
        write_skill(tmp_path, "file", "Third.")


def test_command_skills_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.settings.ROOT", tmp_path)
    done = CliRunner().invoke(app, ["skills", "new", "unit-conversion", "--description", "Converts units."])
    path = tmp_path / "skills" / "unit-conversion"
    assert done.exit_code == 0, done.output
    assert "".join(done.output.split()).startswith(f"Written:{path}")
    assert validate_skills(path) == []
    refused = CliRunner().invoke(app, ["skills", "new", "unit-conversion"])
    assert (refused.exit_code, "Traceback" in refused.output) == (2, False)
    assert "unit-conversion" in refused.output
    done = CliRunner().invoke(app, ["skills", "new", "later", "--library"])
    assert (done.exit_code, "Agents cannot see this skill yet" in done.output) == (0, True)
    assert (tmp_path / "skills" / "later.py").is_file()
