"""Shipped skills are valid, and `skills/README.md` lists their exports."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from agent.skills.write_skills_readme import skills_readme
from libs.middleware.skills.skill_validation import validate_skills
from libs.middleware.skills.skills_middleware import discover_skills

ROOT = Path(__file__).parents[3]
SKILLS = ROOT / "skills"
LIBRARIES = sorted(SKILLS.glob("*/__init__.py"))


def put(folder: Path, name: str, program: str, *, skill: bool = True) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(program)
    if skill:
        (folder / name / "SKILL.md").write_text("")


def test_readme_lists_the_exports() -> None:
    assert (SKILLS / "README.md").read_text(encoding="utf-8") == skills_readme(SKILLS), (
        "run: python -m agent.skills.write_skills_readme"
    )


def test_shipped_skills_are_valid_and_usable() -> None:
    assert [str(problem) for problem in validate_skills(SKILLS)] == []
    skills = discover_skills(SKILLS)
    assert "csv-analytics" in [skill.name for skill in skills]
    assert [skill.problem for skill in skills] == [None] * len(skills)


def test_skill_names_its_docs() -> None:
    docs = sorted(SKILLS.glob("*/docs/*.md"))
    assert {"csv-analytics", "pdf-processing"} <= {file.parts[-3] for file in docs}
    for file in docs:
        text = (file.parents[1] / "SKILL.md").read_text(encoding="utf-8")
        assert f"`/{file.relative_to(ROOT).as_posix()}`" in text


@pytest.mark.parametrize("file", LIBRARIES, ids=lambda file: file.parent.name)
def test_exported_function_is_typed_and_has_an_example(file: Path) -> None:
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


def test_readme_of_a_new_skill(tmp_path: Path) -> None:
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
