"""Writes `.env.example` and the table of `docs/configuration.md`.

Run `python -m agent.settings.write_settings_docs`.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from itertools import pairwise
from typing import Literal, cast, get_args, get_origin

from pydantic.fields import FieldInfo

from agent.settings.application_settings import Settings
from agent.settings.setting_types import bounds_of
from agent.settings.state_paths import ROOT

__all__ = ["PAGE", "env_example", "with_table"]

PAGE = ROOT / "docs" / "configuration.md"

_TABLE = re.compile(r"(?<=\|---\|---\|---\|\n)(?:\|.*\n)*")


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is None:
        return ""
    return ",".join(value) if isinstance(value, tuple) else str(value)


@functools.cache
def _texts() -> dict[str, str]:
    """Return the docstring of each field. pydantic's own option would cost every start 30 ms."""
    return {
        field.target.id: inspect.cleandoc(str(ast.literal_eval(text.value)))
        for part in _PARTS
        for body in [cast(ast.ClassDef, ast.parse(inspect.getsource(part)).body[0]).body]
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr)
    }


_PARTS = [part for part in Settings.__mro__ if part.__module__.startswith("agent.")]
"""`Settings` and its base classes."""


def _fields() -> dict[str, FieldInfo]:
    """Return the fields by name, those of `Settings` itself first."""
    own = [name for part in _PARTS for name in part.__annotations__ if name in Settings.model_fields]
    return {name: Settings.model_fields[name] for name in own}


def _about(name: str, field: FieldInfo) -> str:
    text = _texts()[name]
    if bounds := bounds_of(field):
        return f"{text} From {bounds[0]} to {bounds[1]}."
    if get_origin(field.annotation) is Literal:
        return f"{text} Allowed: {', '.join(f'`{choice}`' for choice in get_args(field.annotation))}."
    return text


def with_table(page: str) -> str:
    """Return the text of `docs/configuration.md` with the table of the current settings."""
    rows = []
    for name, field in _fields().items():
        default = f"`{_default(field)}`" if _default(field) else "unset"
        rows.append(f"| `{name.upper()}` | {default} | {_about(name, field)} |\n")
    return _TABLE.sub(lambda _: "".join(rows), page, count=1)


def env_example() -> str:
    """Return the text of `.env.example`: every variable, commented out, with its default."""
    lines = ["# Copy to .env and uncomment what you change. docs/configuration.md says more.\n"]
    for name, field in _fields().items():
        lines.append(f"\n# {_about(name, field)}\n# {name.upper()}={_default(field)}\n")
    return "".join(lines)


if __name__ == "__main__":
    (ROOT / ".env.example").write_text(env_example(), encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
