"""Writes `skills/README.md` from what the skills export: `python -m agent.skills.write_skills_readme`."""

from __future__ import annotations

import ast
from pathlib import Path

from agent.settings import ROOT

__all__ = ["skills_readme"]

_INTRO = """\
# Skills as a library

Programs in the sandbox import these, from any folder. `cat /skills/<name>/__init__.py` shows each function
with its errors and an example. A folder with `SKILL.md` and `__init__.py` adds a library, and so does a file
`<name>.py` with a docstring. This file is made by `python -m agent.skills.write_skills_readme`.
"""

_EXPORTS = (ast.FunctionDef, ast.ClassDef)


def skills_readme(folder: Path) -> str:
    """Return the text of README.md for the libraries in a folder of skills. Imports nothing.

    Raises:
        ValueError: an exported name is not a function or class of the library, or has no docstring.
        SyntaxError: a library is not Python.
    """
    folders = [file for file in folder.glob("*/__init__.py") if file.with_name("SKILL.md").is_file()]
    libraries = {file.parent.name: file for file in folders}
    libraries |= {file.stem: file for file in folder.glob("*.py") if file.name[0] not in "._"}
    named = sorted(name for name in libraries if name.isidentifier())
    return "\n".join([_INTRO, *(_section(name, libraries[name]) for name in named)])


def _section(name: str, file: Path) -> str:
    module = ast.parse(file.read_text(encoding="utf-8"), str(file))
    exported = _exported(module)
    defined = {node.name: node for node in module.body if isinstance(node, _EXPORTS)}
    missing = [export for export in exported if export not in defined]
    if missing:
        raise ValueError(f"{file}: {', '.join(missing)} in __all__ is not a function or class of it")
    lines = [f"## {name}", "", _summary(module, file, name), ""]
    lines += ["```python", f"from skills.{name} import {', '.join(exported)}", "```", ""]
    for export in exported:
        node = defined[export]
        lines.append(f"- `{_signature(node)}`  \n  {_summary(node, file, export)}")
    return "\n".join([*lines, ""])


def _exported(module: ast.Module) -> list[str]:
    """Return `__all__`; without it, the public functions and classes."""
    for node in module.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            return [str(name) for name in ast.literal_eval(node.value)]
    return [name for node in module.body if isinstance(node, _EXPORTS) and (name := node.name)[0] != "_"]


def _summary(node: ast.Module | ast.FunctionDef | ast.ClassDef, file: Path, name: str) -> str:
    docstring = ast.get_docstring(node)
    if not docstring:
        raise ValueError(f"{file}: {name} has no docstring")
    return " ".join(docstring.split("\n\n")[0].split())


def _signature(node: ast.FunctionDef | ast.ClassDef) -> str:
    if isinstance(node, ast.FunctionDef):
        result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"{node.name}({ast.unparse(node.args)}){result}"
    fields = [ast.unparse(field) for field in node.body if isinstance(field, ast.AnnAssign)]
    return f"class {node.name}({', '.join(fields)})"


if __name__ == "__main__":
    (ROOT / "skills" / "README.md").write_text(skills_readme(ROOT / "skills"), encoding="utf-8")
