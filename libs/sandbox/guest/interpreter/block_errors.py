"""Formats the error of a block: its traceback, and hints about the data (standard library only)."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import traceback
from typing import Any, Final

_FRAMES: Final = -100
"""The last frames of a traceback that are kept. An endless recursion may have a million."""
_HERE: Final = __file__.rpartition("/")[0] + "/"
_ABOUT_DATA: Final = (LookupError, AttributeError, TypeError, ValueError, NameError)
_CALLED: Final = re.compile(r"(\w+)\(\) (?:got an unexpected|missing \d+ required|takes |got multiple)")
_TABLES: Final = 3
_COLUMNS: Final = 20
_MERGED_ROWS: Final = 100_000


def error_message(error: BaseException) -> str:
    """Return the type of an error, and its message if the message can be read."""
    kind = type(error).__name__
    try:
        text = str(error)
    except BaseException:  # `__str__` of a block's class may do anything
        return f"{kind}\n"
    return f"{kind}: {text}\n" if text else f"{kind}\n"


def error_text(variables: dict[str, Any], error: BaseException) -> str:
    """Return the traceback, and hints about tables, functions or modules.

    If a block has broken the modules that format a traceback, only the type and the message are returned.
    """
    try:
        lines = _traceback(error)
    except Exception:
        return error_message(error)
    try:
        lines += _hints(variables, error)
    except BaseException:  # a block may have changed pandas, and a variable may be any object
        pass
    return "".join(lines)


def _traceback(error: BaseException) -> list[str]:
    shown = traceback.TracebackException(type(error), error, error.__traceback__, limit=_FRAMES, compact=True)
    return list(_own(shown).format())


def _hints(variables: dict[str, Any], error: BaseException) -> list[str]:
    lines = []
    if isinstance(error, _ABOUT_DATA):
        lines += _tables(variables, error.args[0] if isinstance(error, KeyError) else None)
    if isinstance(error, TypeError) and (called := _CALLED.match(str(error))):
        lines += _signature(variables.get(called[1]))
    if isinstance(error, ImportError):
        lines += _offered(error.name)
    return lines


def _own(error: traceback.TracebackException) -> traceback.TracebackException:
    """Remove the frames of this program, of libraries and of skills, except for the last frame.

    Causes of the error that have no frame in the person's code are removed, too.
    """
    frames = [frame for frame in error.stack if not _is_of_interpreter(frame.filename)]
    last = frames[-1:]
    error.stack = traceback.StackSummary.from_list(
        [frame for frame in frames[:-1] if _is_own(frame.filename)] + last
    )
    for name in ("__cause__", "__context__"):
        earlier = getattr(error, name)
        if earlier is not None:
            mine = any(_is_own(frame.filename) for frame in earlier.stack)
            setattr(error, name, _own(earlier) if mine else None)
    return error


def _is_of_interpreter(filename: str) -> bool:
    return filename == ast.__file__ or filename.startswith(_HERE)


def _is_own(filename: str) -> bool:
    return filename.startswith(("<block ", "/workspace/", "/tmp/"))


def _offered(module: str | None) -> list[str]:
    """Return a hint with the names in `__all__` of a module, after a failed import from it."""
    names = getattr(sys.modules.get(module or ""), "__all__", ())
    return [f"[{module} has {', '.join(map(str, names[:_COLUMNS]))}]\n"] if names else []


def _signature(function: object) -> list[str]:
    """Return a hint with the signature of a function, without annotations."""
    if not inspect.isfunction(function):
        return []
    given = inspect.signature(function)
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in given.parameters.values()]
    shown = given.replace(parameters=bare, return_annotation=inspect.Signature.empty)
    return [f"[it is called as {function.__name__}{shown}]\n"]


def _tables(variables: dict[str, Any], missing: object) -> list[str]:
    """Return a line for each of the latest DataFrames, and a hint if one has the missing column."""
    kind = getattr(sys.modules.get("pandas"), "DataFrame", None)
    if kind is None:
        return []
    found = {name: value for name, value in variables.items() if type(value) is kind and name[0] != "_"}
    latest = dict(list(found.items())[-_TABLES:])
    lines = [_table(name, value) for name, value in latest.items()]
    owners = [name for name, value in latest.items() if isinstance(missing, str) and missing in value.columns]
    others = [name for name in latest if name not in owners]
    if owners and others:
        merge = "merge the two first"
        for other in reversed(others):
            if keys := _keys(latest[other], latest[owners[0]]):
                left, right = keys
                merge += f", as in {other}.merge({owners[0]}, left_on={left!r}, right_on={right!r})"
                break
        lines.append(f"[{missing!r} is a column of {owners[0]}: to have it in another table, {merge}]\n")
    return lines


def _table(name: str, value: Any) -> str:
    names = [str(each) for each in value.columns[:_COLUMNS]]
    kinds = ["text" if str(each) in ("object", "str") else str(each) for each in value.dtypes[:_COLUMNS]]
    columns = ", ".join(f"{column} ({kind})" for column, kind in zip(names, kinds, strict=True))
    more = f" and {len(value.columns) - _COLUMNS} more" if len(value.columns) > _COLUMNS else ""
    return f"[{name}: a DataFrame of {len(value):,} rows with the columns {columns}{more}]\n"


def _keys(left: Any, right: Any) -> tuple[str, str] | None:
    """Return the columns on which `left` can be merged with `right`, by their names and values."""
    if max(len(left), len(right)) > _MERGED_ROWS:
        return None
    for mine in map(str, left.columns):
        for theirs in map(str, right.columns):
            alike = mine.lower() in theirs.lower() or theirs.lower() in mine.lower()
            if alike and right[theirs].is_unique and left[mine].isin(right[theirs]).mean() > 0.5:
                return mine, theirs
    return None
