"""`write_skill`: what it makes is valid and runs, and what it refuses leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from agent import config
from agent.cli import app
from libs.middleware.skill_rules import fold
from libs.middleware.skill_template import write_skill
from libs.middleware.skills import discover_skills, validate_skills


@pytest.mark.parametrize("name", ["a", "unit-conversion", "v2", "café", "no", "1e3", "n" * 64])
def test_a_new_skill_is_valid_and_found(tmp_path: Path, name: str) -> None:
    file = write_skill(tmp_path / "skills", name, 'Does: it. Use "when" asked #1.\n- now')
    assert file == tmp_path / "skills" / name / "SKILL.md"
    assert validate_skills(tmp_path / "skills") == []
    (skill,) = discover_skills(tmp_path / "skills")
    assert (skill.name, skill.description) == (name, 'Does: it. Use "when" asked #1. - now')
    assert f"python /skills/{name}/scripts/run.py" in file.read_text(encoding="utf-8")


@given(st.text(min_size=1, max_size=300).filter(lambda text: bool(fold(text))))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_description_is_read_back_as_one_line(
    tmp_path_factory: pytest.TempPathFactory, description: str
) -> None:
    folder = tmp_path_factory.mktemp("skills")
    write_skill(folder, "a", description)
    assert [skill.description for skill in discover_skills(folder)] == [fold(description)]
    assert validate_skills(folder) == []


def test_its_script_speaks_json_and_explains_itself(tmp_path: Path) -> None:
    script = str(write_skill(tmp_path, "a", "Does it.").parent / "scripts" / "run.py")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True)

    assert "usage:" in run("--help").stdout
    assert json.loads(run(script).stdout)["lines"] > 10
    missing = run(str(tmp_path / "none"))
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("name", "description", "message"),
    [
        ("", "Does it.", "name is missing"),
        ("A Skill", "Does it.", "not lower-case letters"),
        ("../a", "Does it.", "not lower-case letters"),
        ("a/b", "Does it.", "not lower-case letters"),
        ("a\0b", "Does it.", "not lower-case letters"),
        ("-a", "Does it.", "starts or ends with a hyphen"),
        ("a--b", "Does it.", "two in a row"),
        ("n" * 65, "Does it.", "limit 64"),
        ("a", " \n", "description is empty"),
        ("a", "d" * 1025, "limit 1,024"),
    ],
)
def test_what_breaks_a_rule_is_refused(tmp_path: Path, name: str, description: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        write_skill(tmp_path, name, description)
    assert list(tmp_path.iterdir()) == []


def test_a_skill_that_is_there_is_left_alone(tmp_path: Path) -> None:
    before = write_skill(tmp_path, "a", "First.").read_bytes()
    with pytest.raises(ValueError, match="exists already"):
        write_skill(tmp_path, "a", "Second.")
    assert (tmp_path / "a" / "SKILL.md").read_bytes() == before
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="exists already"):
        write_skill(tmp_path, "file", "Third.")


def test_the_command_begins_one_among_the_projects_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "ROOT", tmp_path)
    done = CliRunner().invoke(app, ["skills", "new", "unit-conversion", "--description", "Converts units."])
    path = tmp_path / "skills" / "unit-conversion"
    assert done.exit_code == 0, done.output
    assert "".join(done.output.split()).startswith(f"Written:{path}")
    assert validate_skills(path) == []
    refused = CliRunner().invoke(app, ["skills", "new", "unit-conversion"])
    assert (refused.exit_code, "Traceback" in refused.output) == (2, False)
    assert "unit-conversion" in refused.output
