"""`doctor` checks the skills of all configured folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.commands.machine.doctor import Check, check_all


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def checked() -> Check:
    [check] = [each for each in check_all() if each.name == "skills"]
    return check


def test_no_skill_has_been_approved_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLS_EVOLVE", "1")
    assert checked().ok


def test_faulty_skill_is_a_warning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "team" / "convert").mkdir(parents=True)
    (folder / "team" / "convert" / "SKILL.md").write_text("no front matter")
    monkeypatch.setenv("SKILLS_DIRS", str(folder / "team"))
    check = checked()
    assert (check.ok, check.warning) == (False, True)
    assert "team/convert" in check.detail
