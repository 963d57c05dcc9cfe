"""Tokens of the code-block agent's first request, beside the same skills offered as JSON schemas.

The peer declares one function for each that a skill exports, and one for each script of the others, with
their names and parameters and the first paragraph of what they say of themselves. It is given nothing for
running code: that would only make it longer. Tokens are estimated, about four characters each.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AnyMessage, SystemMessage
from langchain_core.messages.utils import count_tokens_approximately

from agent import code_prompt
from agent.config import ROOT, load_settings
from libs.middleware.skill_files import SkillFolders
from libs.middleware.skill_prompt import render_skills
from tests.bench.measure import Figure

_JSON_TYPES = {"int": "integer", "float": "number", "bool": "boolean"}


def figures() -> Iterator[Figure]:
    settings = load_settings(None)
    skills = SkillFolders({"/skills": ROOT / "skills"}).scan()
    section = render_skills(skills, max_chars=settings.skills_prompt_chars, steps=code_prompt.SKILL_STEPS)
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
    """What the importable skills export."""
    for file in sorted(folder.glob("*/__init__.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                arguments = [*node.args.args, *node.args.kwonlyargs]
                yield _schema(
                    f"{file.parent.name}_{node.name}",
                    _summary(node),
                    {each.arg: _typed(each.annotation) for each in arguments},
                )


def _scripts(folder: Path) -> Iterator[dict[str, Any]]:
    """The programs of the other skills, with the options they declare and those they all share."""
    for scripts in sorted(folder.glob("*/scripts")):
        shared = _options(scripts / "command.py") if (scripts / "command.py").is_file() else {}
        for file in sorted(scripts.glob("*.py")):
            module = ast.parse(file.read_text(encoding="utf-8"))
            if own := _options(file):
                name = f"{scripts.parent.name}_{file.stem}".replace("-", "_")
                if file.stem != "command":
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
