"""`write_skill`: the new skill is valid and runs; a refused skill leaves no file."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent.cli import app
from libs.middleware.skills.skill_template import write_skill
from libs.middleware.skills.skills_middleware import discover_skills, validate_skills


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
        ("a", " \n", "description is empty"),
        ("a", "d" * 1025, "limit 1,024"),
    ],
)
def test_wrong_values_are_refused(tmp_path: Path, name: str, description: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        write_skill(tmp_path, name, description)
    assert list(tmp_path.iterdir()) == []


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
