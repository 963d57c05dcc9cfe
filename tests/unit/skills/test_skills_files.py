"""Skills on disk: forgiven mistakes, refused files, problems of validation, and changed files."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from libs.middleware.skills.skill_files import Skill, SkillFolders, discover_skills
from libs.middleware.skills.skill_reading import MAX_SKILL_BYTES
from libs.middleware.skills.skill_validation import validate_skills

GOOD = b"---\nname: %s\ndescription: Does a thing. Use when asked.\n---\n# Body\n"


def put(root: Path, folder: str, content: bytes | None = None) -> Path:
    file = root / folder / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(GOOD % folder.encode() if content is None else content)
    return file


def only(root: Path) -> Skill:
    (skill,) = discover_skills(root)
    return skill


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"---\r\nname: a\r\ndescription: Does it.\r\n---\r\nBody\r\n", id="crlf"),
        pytest.param(b"\xef\xbb\xbf---\nname: a\ndescription: Does it.\n---\n", id="bom"),
        pytest.param(b"--- \nname: a\ndescription: >\n  Does\n  it.\n---\t\n", id="spaces-after-dashes"),
        pytest.param(
            b"---\nname: a\ndescription: Does it.\nlicense: MIT\ncompatibility: Python 3.11\n"
            b"allowed-tools: Bash(git:*) Read\nmetadata:\n  version: 1.0\n---\n",
            id="every-field",
        ),
    ],
)
def test_valid_forms_of_front_matter(tmp_path: Path, content: bytes) -> None:
    put(tmp_path, "a", content)
    assert only(tmp_path) == Skill("a", "Does it.", "/skills/a/SKILL.md")
    assert validate_skills(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "SKILL.md has no front matter"),
        (b"---\nname: a\ndescription: b\n", "the front matter of SKILL.md is not closed"),
        (b"---\nname: a\ndescription: caf\xe9\n---\n", "SKILL.md is not UTF-8 (byte 0xe9 at offset 28)"),
        (b"---\n- a\n- b\n---\n", "the front matter of SKILL.md is not a list of fields"),
        (
            b"---\nname: a\ndescription: use it: now\n---\n",
            "the front matter of SKILL.md is not YAML: mapping values are not allowed here, line 3",
        ),
        (
            b"---\ndescription: " + b"x" * 20_000 + b"\n---\n",
            "the front matter of SKILL.md has 20,013 characters (limit 16,384)",
        ),
        (b"---\nname: a\n---\n", "description is missing"),
        (b'---\nname: a\ndescription: "\\u200b \\n"\n---\n', "description is empty"),
        (b"x" * (MAX_SKILL_BYTES + 1), "SKILL.md has 1,000,001 bytes (limit 1,000,000)"),
    ],
)
def test_unusable_skill_is_listed_with_its_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes, reason: str
) -> None:
    put(tmp_path, "a", content)
    put(tmp_path, "b")
    with caplog.at_level(logging.WARNING):
        bad, good = discover_skills(tmp_path)
    assert (bad.name, bad.problem) == ("a", reason)
    assert good.problem is None
    assert f"Skill /skills/a/SKILL.md: cannot be used: {reason}" in caplog.messages
    assert reason in [problem.message for problem in validate_skills(tmp_path)]


@pytest.mark.parametrize(
    ("fields", "name", "breach"),
    [
        ("name: other", "other", "name 'other' differs from the folder name 'a'"),
        ("license: MIT", "a", "name is missing"),
        ("name: A Skill", "A Skill", "name 'A Skill' is not lower-case letters, digits and hyphens"),
        (f"name: {'n' * 65}", "n" * 63 + "…", "name has 65 characters (limit 64)"),
        ("name: a\nversion: 2", "a", "'version' is not a field of a skill"),
        ("name: a\nmetadata: text", "a", "metadata is not a mapping of text to text"),
    ],
)
def test_forgiven_mistakes_are_problems_of_validation(
    tmp_path: Path, fields: str, name: str, breach: str
) -> None:
    put(tmp_path, "a", f"---\n{fields}\ndescription: Does it.\n---\n".encode())
    skill = only(tmp_path)
    assert (skill.name, skill.description, skill.problem) == (name, "Does it.", None)
    problems = validate_skills(tmp_path)
    assert breach in [problem.message for problem in problems]
    assert all(problem.fix and problem.path == tmp_path / "a" / "SKILL.md" for problem in problems)


@pytest.mark.parametrize(("length", "forgiven"), [(1024, False), (1025, True)])
def test_long_description_is_cut(tmp_path: Path, length: int, forgiven: bool) -> None:
    put(tmp_path, "a", f"---\nname: a\ndescription: {'d' * length}\n---\n".encode())
    skill = only(tmp_path)
    assert len(skill.description) == 1024
    assert skill.description.endswith("…") is forgiven
    assert bool(validate_skills(tmp_path)) is forgiven


def test_special_files_never_block(tmp_path: Path) -> None:
    for name in ("dir", "fifo", "gone", "loop"):
        (tmp_path / name).mkdir()
    (tmp_path / "dir" / "SKILL.md").mkdir()
    os.mkfifo(tmp_path / "fifo" / "SKILL.md")
    (tmp_path / "gone" / "SKILL.md").symlink_to("nowhere")
    (tmp_path / "loop" / "SKILL.md").symlink_to("SKILL.md")
    assert [(skill.name, skill.problem) for skill in discover_skills(tmp_path)] == [
        ("dir", "SKILL.md is not a regular file"),
        ("fifo", "SKILL.md is not a regular file"),
        ("gone", "SKILL.md is a link to nothing"),
        ("loop", "SKILL.md cannot be read: Too many levels of symbolic links"),
    ]
    assert len(validate_skills(tmp_path)) == 4


def test_link_out_of_the_folder_is_not_read(tmp_path: Path) -> None:
    outside = put(tmp_path / "outside", "secret")
    root = tmp_path / "skills"
    put(root, "inside", b"")
    (root / "inside" / "SKILL.md").unlink()
    (root / "inside" / "TEXT.md").write_bytes(GOOD % b"inside")
    (root / "inside" / "SKILL.md").symlink_to("TEXT.md")
    (root / "file").mkdir()
    (root / "file" / "SKILL.md").symlink_to(outside)
    (root / "folder").symlink_to(outside.parent)
    found = {skill.name: skill.problem for skill in discover_skills(root)}
    assert found == {
        "inside": None,
        "file": "SKILL.md is a link out of its folder",
        "folder": "SKILL.md is a link out of its folder",
    }


def test_first_of_two_skills_keeps_the_name(tmp_path: Path) -> None:
    put(tmp_path / "own", "a")
    put(tmp_path / "own", "b", GOOD % b"a")
    put(tmp_path / "extra", "a")
    folders = SkillFolders({"/skills": tmp_path / "own", "/skills.d/extra": tmp_path / "extra"})
    assert [(skill.path, skill.problem) for skill in folders.scan()] == [
        ("/skills/a/SKILL.md", None),
        ("/skills/b/SKILL.md", "its name is already used by /skills/a/SKILL.md"),
        ("/skills.d/extra/a/SKILL.md", "its name is already used by /skills/a/SKILL.md"),
    ]
    messages = [problem.message for problem in validate_skills(tmp_path / "own")]
    assert f"has the same name as {tmp_path / 'own' / 'a' / 'SKILL.md'}" in messages


def test_validation_of_one_skill_and_of_folders_without_a_skill(tmp_path: Path) -> None:
    put(tmp_path, "a", b"---\nname: b\n---\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "skill.md").write_text("wrong case")
    assert [problem.message for problem in validate_skills(tmp_path / "a")] == [
        "name 'b' differs from the folder name 'a'",
        "description is missing",
    ]
    assert str(validate_skills(tmp_path)[-1]) == (
        f"{tmp_path / 'empty'}: has no SKILL.md. Add one, spelt exactly so, or move it away."
    )
    assert [problem.message for problem in validate_skills(tmp_path / "nowhere")] == [
        "cannot be read: No such file or directory"
    ]


def test_only_changed_files_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    read_bytes = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: (read.append(path.parent.name), read_bytes(path))[1])
    put(tmp_path, "a")
    file = put(tmp_path, "b")
    folders = SkillFolders({"/skills": tmp_path})
    assert [skill.name for skill in folders.scan()] == ["a", "b"]
    assert read == ["a", "b"]
    folders.scan()
    assert read == ["a", "b"]

    file.write_bytes((GOOD % b"b").replace(b"a thing", b"another"))
    os.utime(file, ns=(1, 1))
    put(tmp_path, "c")
    (tmp_path / "a" / "SKILL.md").unlink()
    assert [(skill.name, skill.description) for skill in folders.scan()] == [
        ("b", "Does another. Use when asked."),
        ("c", "Does a thing. Use when asked."),
    ]
    assert read == ["a", "b", "b", "c"]
