"""Tokens of a first request with skills, compared with the same functions as JSON tool schemas.

The peer declares one function for each function that a skill exports, and one for each script of other
skills, with names, parameters and the first paragraph of the docstring. It declares no tool that runs code,
which would only add tokens. Tokens are estimated at about four characters each.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AnyMessage, SystemMessage
from langchain_core.messages.utils import count_tokens_approximately

from agent.prompts import code_prompt
from agent.settings import ROOT, load_settings
from libs.middleware.skills.skill_files import SkillFolders
from libs.middleware.skills.skill_prompt import render_skills
from tests.bench.measure import Figure

_JSON_TYPES = {"int": "integer", "float": "number", "bool": "boolean"}


def figures() -> Iterator[Figure]:
    settings = load_settings(None)
    skills = SkillFolders({"/skills": ROOT / "skills"}).scan()
    section = render_skills(
        skills,
        max_chars=settings.skills_prompt_chars,
        steps=code_prompt.SKILL_STEPS,
        example=code_prompt.SKILL_EXAMPLE,
    )
    schemas = [*_functions(ROOT / "skills"), *_scripts(ROOT / "skills")]
    lines, declared = _tokens(section), _tokens("", schemas)
    what = f"{len(skills)} skills, {len(schemas)} functions"
    yield Figure(
        f"skills in a request: {what}",
        "tokens (estimated)",
        {"sandbox": float(lines), "as JSON schemas": float(declared)},
        "less than as schemas",
        lines < declared,
    )
    whole = _tokens(code_prompt.system_prompt(settings, skills=section, data="", tables=True))
    with_schemas = _tokens(code_prompt.system_prompt(settings, skills="", data="", tables=False), schemas)
    yield Figure(
        "first request with the same instructions",
        "tokens (estimated)",
        {"sandbox": float(whole), "as JSON schemas": float(with_schemas)},
        "less than with schemas",
        whole < with_schemas,
    )


def _tokens(text: str, schemas: Sequence[dict[str, Any]] = ()) -> int:
    messages: list[AnyMessage] = [SystemMessage(text)] if text else []
    return count_tokens_approximately(messages, tools=list(schemas) or None)


def _functions(folder: Path) -> Iterator[dict[str, Any]]:
    """Return schemas of the functions that skills export."""
    for file in sorted([*folder.glob("*/__init__.py"), *folder.glob("*.py")]):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                arguments = [*node.args.args, *node.args.kwonlyargs]
                yield _schema(
                    f"{_library(file)}_{node.name}",
                    _summary(node),
                    {each.arg: _typed(each.annotation) for each in arguments},
                )


def _library(file: Path) -> str:
    return file.parent.name if file.name == "__init__.py" else file.stem


def _scripts(folder: Path) -> Iterator[dict[str, Any]]:
    """Return schemas of the scripts of other skills, with their own options and the shared ones."""
    for scripts in sorted(folder.glob("*/scripts")):
        common = [*scripts.glob("*_command.py")]
        shared = _options(common[0]) if common else {}
        for file in sorted(set(scripts.glob("*.py")).difference(common)):
            module = ast.parse(file.read_text(encoding="utf-8"))
            if own := _options(file):
                name = f"{scripts.parent.name}_{file.stem}".replace("-", "_")
                yield _schema(name, _summary(module), {**shared, **own})


def _options(file: Path) -> dict[str, dict[str, str]]:
    calls = (
        node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
    )
    return {
        str(ast.literal_eval(call.args[0])).lstrip("-"): {
            "type": "string",
            "description": next(
                (ast.unparse(k.value).strip("'\"") for k in call.keywords if k.arg == "help"), ""
            ),
        }
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument" and call.args
    }


def _summary(node: ast.FunctionDef | ast.Module) -> str:
    return (ast.get_docstring(node) or "").split("\n\n")[0]


def _typed(annotation: ast.expr | None) -> dict[str, str]:
    return {"type": _JSON_TYPES.get(ast.unparse(annotation) if annotation else "", "string")}


def _schema(name: str, description: str, properties: dict[str, dict[str, str]]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}
