"""The rules for a skill that is one Python module, `skills/<name>.py`, as pure functions over its bytes.

The file name gives the name, and the first paragraph of the docstring gives the description.
"""

from __future__ import annotations

import ast
import keyword
import warnings
from collections.abc import Iterator, Mapping

from libs.middleware.skills.skill_rules import (
    MAX_NAME_CHARS,
    Finding,
    UnreadableSkill,
    check_description,
    fold,
)

__all__ = ["check_module", "parse_module", "parse_python"]


def parse_python(content: str | bytes) -> ast.Module:
    """Parse a program without running it, and without warnings.

    Raises:
        ValueError: the program is not Python. The message says why.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(content)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(str(error) or type(error).__name__) from None


def parse_module(content: bytes, file: str) -> Mapping[str, object]:
    """Return name and description of the module in `file`.

    Raises:
        UnreadableSkill: not Python, or without a docstring.
    """
    try:
        docstring = ast.get_docstring(parse_python(content))
    except ValueError as error:
        raise UnreadableSkill(f"{file} is not Python: {fold(str(error))}", fix="Correct it.") from error
    if not docstring:
        raise UnreadableSkill(
            f"{file} has no docstring",
            fix="Begin the file with a docstring that says what the skill does and when to use it.",
        )
    return {"name": file.removesuffix(".py"), "description": docstring.split("\n\n")[0]}


def check_module(fields: Mapping[str, object], file: str) -> Iterator[Finding]:
    """Yield every rule that a module breaks. A module that cannot be imported cannot be used."""
    name = file.removesuffix(".py")
    if keyword.iskeyword(name):
        yield Finding(
            f"{file} cannot be imported: {name} is a keyword of Python", "Choose another name.", fatal=True
        )
    elif not name.isidentifier():
        yield Finding(
            f"{file} cannot be imported",
            "Rename it: use only letters, digits and underscores, and no digit at the beginning.",
            fatal=True,
        )
    if name != name.lower():
        yield Finding(f"{file} has upper-case letters", "Rename it in lower case.")
    if len(name) > MAX_NAME_CHARS:
        yield Finding(f"the name has {len(name):,} characters (limit {MAX_NAME_CHARS})", "Shorten it.")
    yield from check_description(fields["description"])
