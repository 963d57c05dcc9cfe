"""`skills/README.md`: it says what is exported, and what is exported explains itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from agent.skills_readme import skills_readme

ROOT = Path(__file__).parents[2]
SKILLS = ROOT / "skills"
LIBRARIES = sorted(SKILLS.glob("*/__init__.py"))


def put(folder: Path, name: str, program: str, *, skill: bool = True) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(program)
    if skill:
        (folder / name / "SKILL.md").write_text("")


def test_it_is_what_the_skills_export() -> None:
    assert (SKILLS / "README.md").read_text(encoding="utf-8") == skills_readme(SKILLS), (
        "run: python -m agent.skills_readme"
    )


def test_every_library_is_in_it() -> None:
    text = skills_readme(SKILLS)
    assert {"file", "pdf", "beads", "tables"} <= {file.parent.name for file in LIBRARIES}
    for file in LIBRARIES:
        assert f"\n## {file.parent.name}\n" in text
    assert "`edit(path: str, old: str, new: str) -> str`" in text
    assert "`generate(markdown: str, name: str, title: str | None=None) -> str`" in text


@pytest.mark.parametrize("file", LIBRARIES, ids=lambda file: file.parent.name)
def test_every_exported_function_is_typed_and_has_an_example(file: Path) -> None:
    module = ast.parse(file.read_text(encoding="utf-8"))
    functions = [
        node for node in module.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]
    assert functions
    for function in functions:
        assert function.returns is not None, function.name
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        assert [argument.arg for argument in arguments if argument.annotation is None] == []
        assert "\nExample:\n    " in (ast.get_docstring(function) or ""), function.name


def test_a_file_adds_a_skill(tmp_path: Path) -> None:
    put(
        tmp_path,
        "greet",
        '"""Greets."""\n__all__ = ["hi"]\ndef hi(name: str) -> str:\n    """Greet one."""\n',
    )
    put(tmp_path, "not-a-name", "")
    put(tmp_path, "no_skill", "", skill=False)
    text = skills_readme(tmp_path)
    assert text.endswith(
        "## greet\n\nGreets.\n\n```python\nfrom skills.greet import hi\n```\n\n"
        "- `hi(name: str) -> str`  \n  Greet one.\n"
    )
    assert text.count("\n## ") == 1


def test_a_class_is_shown_with_its_fields(tmp_path: Path) -> None:
    program = '"""D."""\n__all__ = ["P"]\nclass P:\n    """A point."""\n    x: int\n    y: int = 0\n'
    put(tmp_path, "points", program)
    assert "- `class P(x: int, y: int = 0)`" in skills_readme(tmp_path)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ('"""D."""\n', "has no __all__"),
        ("__all__ = []\n", "a has no docstring"),
        ('"""D."""\n__all__ = ["f"]\n', "f in __all__ is no function"),
        ('"""D."""\n__all__ = ["f"]\ndef f() -> int:\n    return 1\n', "f has no docstring"),
    ],
)
def test_what_cannot_be_shown_is_named(tmp_path: Path, program: str, message: str) -> None:
    put(tmp_path, "a", program)
    with pytest.raises(ValueError, match=message):
        skills_readme(tmp_path)
