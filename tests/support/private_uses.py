"""Finds the private names of libraries that a program uses.

Private are names with a leading underscore, and all names of LangGraph's server, which documents none.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Collection, Iterator
from functools import cache
from importlib import import_module

_UNDOCUMENTED = re.compile(r"langgraph_(api|runtime)\b|(.*\.)?_(?!_)")
_IN_TEXT = re.compile(r"\b(?:from|import) ([\w.]*\._\w+)|^(__pregel_)")
"""Imports in the text of another program, and keys of LangGraph's own entries in a config."""
_BY_NAME = {"getattr", "setattr", "hasattr", "delattr", "attrgetter", "methodcaller"}


def imported(tree: ast.AST, own: Collection[str]) -> Iterator[str]:
    """Yield private names that a program imports. `own` holds the packages of this repository."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), level=0):
                names = [f"{module}.{alias.name}" for alias in node.names]
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.Constant(value=str(text)):
                names = [found[1] or found[2] for found in _IN_TEXT.finditer(text)]
                # A name that begins with a dot is of the program in the text.
                yield from (name for name in names if name.split(".")[0] not in {*own, ""})
                continue
            case _:
                continue
        yield from (name for name in names if name.split(".")[0] not in own and _UNDOCUMENTED.match(name))


def attributes(tree: ast.AST) -> Iterator[str]:
    """Yield private attributes. Annotations are not read at run time, and mypy checks them."""
    annotations = {
        id(part)
        for node in ast.walk(tree)
        for field in ("annotation", "returns")
        if isinstance(whole := getattr(node, field, None), ast.AST)
        for part in ast.walk(whole)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and id(node) not in annotations:
            yield node.attr


def attributes_by_name(tree: ast.AST) -> Iterator[str]:
    """Yield private attributes that stand as a string in `getattr` and the like."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)) if called in _BY_NAME:
                texts = (each.value for each in node.args if isinstance(each, ast.Constant))
                yield from (text for text in texts if isinstance(text, str) and _is_private(text))


def defined(tree: ast.AST) -> Iterator[str]:
    """Yield the names that modules and classes of a program define, and the attributes that methods set."""
    for node in ast.walk(tree):
        match node:
            case ast.Module(body=body) | ast.ClassDef(body=body):
                for statement in body:
                    yield from _bound(statement)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                yield name


def inherited(path: str, tree: ast.Module, own: Collection[str]) -> Iterator[str]:
    """Yield private names of foreign base classes that a class overrides, reads or sets.

    The module is imported if it has a class with bases, because only then are all its bases known.
    """
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.bases]
    if not classes:
        return
    module = import_module(path.removesuffix(".py").replace("/", ".").removesuffix(".__init__"))
    for node in classes:
        mro = getattr(module, node.name).__mro__
        foreign = [base for base in mro if base.__module__.split(".")[0] not in own]
        names = {*(name for each in node.body for name in _bound(each)), *attributes(node)}
        for name in filter(_is_private, names):
            if any(defines(base, name) for base in foreign):
                yield name


def defines(owner: type, name: str) -> bool:
    """Return whether a class has an attribute itself, or gives it to its objects."""
    return name in vars(owner) or re.search(rf"\bself\.{name}\b", _source(owner)) is not None


@cache
def _source(owner: type) -> str:
    try:
        return inspect.getsource(owner)
    except (TypeError, OSError):  # written in C
        return ""


def _is_private(name: str) -> bool:
    return re.match(r"_[a-zA-Z]", name) is not None


def _bound(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
