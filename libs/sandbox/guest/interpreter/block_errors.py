"""Formats the error of a block: its traceback, and hints about the data (standard library only)."""

from __future__ import annotations

import ast
import builtins
import inspect
import itertools
import linecache
import pkgutil
import re
import sys
import traceback
import types
from collections.abc import Iterable
from time import monotonic
from typing import Any, Final

__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
"""A copy, because a block may replace names in the module `builtins`."""

_FRAMES: Final = -100
"""The last frames of a traceback that are kept. An endless recursion may have a million."""
_PARTS: Final = 15
"""Exceptions of a group that Python shows: see `traceback.TracebackException`."""
_HERE: Final = __file__.rpartition("/")[0] + "/"
_ABOUT_DATA: Final = (LookupError, AttributeError, TypeError, ValueError, NameError)
_CALLED: Final = re.compile(r"(\S+)\(\) (?:got an unexpected|missing \d+ required|takes |got multiple)")
_LABELS: Final = {"datetime", "decimal", "fractions", "numpy", "pandas"}
"""Modules whose classes have a text at once."""
_SIMPLE: Final = (str, int, float, complex, bool, bytes, type(None))
"""Built-in types without parts, which have a text at once, too."""
_TABLES: Final = 3
_NAMES: Final = 20
_NAME: Final = 200
"""Characters of a name. A file that was read with the wrong separator is one column with a long name."""
_SIGNATURE: Final = 2_000
"""Characters of the longest signature that is shown."""
_MERGED_ROWS: Final = 100_000
_MERGE_SECONDS: Final = 0.5
"""Longest search for the columns on which two tables can be merged. Wide tables have many pairs."""


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
    for hint in (_left_out, _tables, _signature, _offered):
        try:
            lines += hint(variables, error)
        except BaseException:  # a block may have changed pandas, and a variable may be any object
            pass
    return "".join(lines)


def _traceback(error: BaseException) -> list[str]:
    shown = traceback.TracebackException(type(error), error, error.__traceback__, limit=_FRAMES, compact=True)
    return list(_own(shown).format())


def _left_out(_: dict[str, Any], error: BaseException) -> list[str]:
    """Return a line for each shown error of which the traceback lacks calls.

    Python counts how often a line repeats without them.
    """
    lines = []
    waiting: list[tuple[BaseException | None, str]] = [(error, "")]
    seen = set[int]()
    while waiting:
        shown, of = waiting.pop()
        if shown is None or id(shown) in seen:
            continue
        seen.add(id(shown))
        calls = sum(not _is_of_interpreter(trace.tb_frame.f_code.co_filename) for trace in _traces(shown))
        if calls > -_FRAMES:
            told = of and f" of {of} {type(shown).__name__}"
            lines.append(f"[the traceback shows at most the last {-_FRAMES} of {calls:,} calls{told}]\n")
        if isinstance(shown, BaseExceptionGroup):
            waiting += [(each, "the part") for each in shown.exceptions[:_PARTS]]
        waiting.append((shown.__cause__ if shown.__suppress_context__ else shown.__context__, "the cause"))
    return lines


def _own(error: traceback.TracebackException) -> traceback.TracebackException:
    """Remove the frames of this program, of libraries and of skills, except for the last frame.

    Causes that were raised outside the person's code are removed, too. A cause without frames stays: the
    person has named the cause, or it holds the traceback of another process. So does a cause whose first
    frames are cut off, because they may be the person's.
    """
    waiting = [error]  # not a recursion: an endless recursion may have wrapped its error at each call
    while waiting:
        shown = waiting.pop()
        frames = [frame for frame in shown.stack if not _is_of_interpreter(frame.filename)]
        last = frames[-1:]
        shown.stack = traceback.StackSummary.from_list(
            [frame for frame in frames[:-1] if _is_own(frame.filename)] + last
        )
        for name in ("__cause__", "__context__"):
            earlier = getattr(shown, name)
            while earlier and 0 < len(earlier.stack) < -_FRAMES and not _has_own(earlier.stack):
                earlier = earlier.__cause__ or earlier.__context__
            setattr(shown, name, earlier)
            if earlier:
                waiting.append(earlier)
    return error


def _has_own(frames: traceback.StackSummary) -> bool:
    return any(_is_own(frame.filename) for frame in frames)


def _is_of_interpreter(filename: str) -> bool:
    return filename == ast.__file__ or filename.startswith(_HERE)


def _is_own(filename: str) -> bool:
    return filename.startswith(("<block ", "/workspace/", "/tmp/"))


def _offered(_: dict[str, Any], error: BaseException) -> list[str]:
    """Return a hint with the names in `__all__` of a module, after a failed import from it.

    `__all__` may hold names that the module lacks. Only a module that makes its names when they are asked for
    is believed.
    """
    name = error.name if isinstance(error, ImportError) else None
    module = sys.modules.get(name or "")
    if module is None:
        return []
    has = {*vars(module), *(each.name for each in pkgutil.iter_modules(getattr(module, "__path__", ())))}
    names = [each for each in getattr(module, "__all__", ()) if each in has or "__getattr__" in has]
    return [f"[{name} has {_listed(map(_cut, names), len(names))}]\n"] if names else []


def _listed(names: Iterable[str], count: int) -> str:
    """Return the first of `count` names, and the number of the others."""
    more = f" and {count - _NAMES} more" if count > _NAMES else ""
    return ", ".join(itertools.islice(names, _NAMES)) + more


def _cut(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[:_NAME]}…"


def _signature(_: dict[str, Any], error: BaseException) -> list[str]:
    """Return a hint with the signature of a function that was called wrongly, without annotations."""
    said = _CALLED.match(str(error)) if isinstance(error, TypeError) else None
    function = _called(error) if said else None
    if not said or not inspect.isfunction(function) or function.__qualname__ != said[1]:
        return []
    # A decorator may have given the function another signature than its own.
    own = types.FunctionType(
        function.__code__, {}, argdefs=function.__defaults__, closure=function.__closure__
    )
    own.__kwdefaults__ = function.__kwdefaults__
    given = inspect.signature(own)
    bare = [each.replace(default=_Default(each.default)) for each in given.parameters.values()]
    shown = f"{function.__name__}{given.replace(parameters=bare)}"
    return [f"[it is called as {shown}]\n"] if len(shown) <= _SIGNATURE else []


class _Default:
    """Shows the default of a parameter if that takes no time. The text of an object may take any time."""

    def __new__(cls, value: Any) -> Any:
        return value if value is inspect.Parameter.empty else super().__new__(cls)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __repr__(self) -> str:
        value = self._value
        kind = type(value)
        if kind is str or kind is bytes:
            return repr(value[:_NAME]) + "…" * (len(value) > _NAME)
        long = kind is int and value.bit_length() > _NAME
        empty = kind in (tuple, list, dict) and not value
        return repr(value) if empty or (kind in _SIMPLE and not long) else "…"


def _called(error: BaseException) -> object:
    """Return what was called by name where an error was raised, or None."""
    trace = _traces(error)[-1]
    frame, at = trace.tb_frame, inspect.getframeinfo(trace, context=0).positions
    if not at or not at.lineno or not at.end_lineno:
        return None
    source = linecache.getlines(frame.f_code.co_filename, frame.f_globals)[at.lineno - 1 : at.end_lineno]
    lines = [line.encode() for line in source]
    lines[-1] = lines[-1][: at.end_col_offset]
    lines[0] = lines[0][at.col_offset :]
    expression = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    if not isinstance(expression, ast.Call) or not isinstance(expression.func, ast.Name):
        return None
    name = expression.func.id
    return frame.f_locals.get(name, frame.f_globals.get(name))


def _traces(error: BaseException) -> list[types.TracebackType]:
    traces = []
    trace = error.__traceback__
    while trace:
        traces.append(trace)
        trace = trace.tb_next
    return traces


def _tables(variables: dict[str, Any], error: BaseException) -> list[str]:
    """Return a line for some DataFrames, and a hint if one has the missing column.

    The one that lacks the column is shown, if that is certain. The others are the latest.
    """
    kind = getattr(sys.modules.get("pandas"), "DataFrame", None)
    if kind is None or not isinstance(error, _ABOUT_DATA):
        return []
    inside = _frames_of_pandas(error) if isinstance(error, LookupError) else []
    if isinstance(error, LookupError) and not inside:
        return []  # a key of a dictionary is missing, or an item of a list
    found = {name: value for name, value in variables.items() if type(value) is kind and name[0] != "_"}
    missing = error.args[0] if isinstance(error, KeyError) else None
    lacking = _lacking(inside, kind, missing) if isinstance(missing, str) else None
    names = sorted(found, key=lambda name: found[name] is lacking)[-_TABLES:]
    lines = [_table(name, found[name]) for name in found if name in names]
    if (more := len(found) - len(lines)) > 0:
        lines.append(f"[and {more} more DataFrame{'s' * (more > 1)}]\n")
    if isinstance(missing, str):
        lines += _merge(found, lacking, missing)
    return lines


def _frames_of_pandas(error: BaseException) -> list[types.FrameType]:
    """Return the frames of pandas in which an error was raised, the first call first."""
    frames = [trace.tb_frame for trace in _traces(error)]
    last = len(frames)
    while last and str(frames[last - 1].f_globals.get("__name__")).partition(".")[0] == "pandas":
        last -= 1
    return frames[last:]


def _lacking(inside: list[types.FrameType], kind: type, column: str) -> Any:
    """Return the DataFrame that was asked for a column, but lacks the column. None if that is not certain."""
    for frame in inside:
        tables: list[Any] = [value for value in frame.f_locals.values() if type(value) is kind]
        if tables or "self" in frame.f_locals:
            lacking = next((table for table in tables if column not in table.columns), None)
            if lacking is not None and any(each.f_locals.get("self") is lacking.index for each in inside):
                return None  # it was asked for a row
            return lacking
    return None


def _merge(tables: dict[str, Any], lacking: Any, column: str) -> list[str]:
    """Return a hint if one of the tables has the column that the DataFrame `lacking` lacks."""
    owner = next((name for name, value in tables.items() if column in value.columns), None)
    if lacking is None or owner is None:
        return []
    merge = "merge the two first"
    name = next((name for name, value in tables.items() if value is lacking), None)
    if name and (keys := _keys(lacking, tables[owner])):
        merge += f", as in {name}.merge({owner}, left_on={keys[0]!r}, right_on={keys[1]!r})"
    return [f"[{column!r} is a column of {owner}: to have it in another table, {merge}]\n"]


def _table(name: str, value: Any) -> str:
    kinds = ("text" if str(each) in ("object", "str") else str(each) for each in value.dtypes)
    columns = (f"{_cut(_label(column))} ({kind})" for column, kind in zip(value.columns, kinds, strict=True))
    shown = _listed(columns, len(value.columns))
    return f"[{name}: a DataFrame of {len(value):,} rows with the columns {shown}]\n"


def _label(column: Any) -> str:
    """Return the text of a label. The class of an unusual label is named: its text may take any time."""
    parts = column if type(column) is tuple else (column,)
    known = all(type(part) in _SIMPLE or type(part).__module__.partition(".")[0] in _LABELS for part in parts)
    return str(column) if known else f"<{type(column).__name__}>"


def _keys(left: Any, right: Any) -> tuple[str, str] | None:
    """Return the columns on which `left` can be merged with `right`, by their names and values.

    None: there are none or several, or the time was used up. A column of `left` that repeats no value is left
    out: two tables that number their rows have the same numbers, which say nothing.
    """
    if max(len(left), len(right)) > _MERGED_ROWS:
        return None
    end = monotonic() + _MERGE_SECONDS
    found = None
    for mine in map(str, left.columns):
        for theirs in map(str, right.columns):
            if monotonic() > end:
                return None
            alike = mine.lower() in theirs.lower() or theirs.lower() in mine.lower()
            if not alike or left[mine].is_unique or not right[theirs].is_unique:
                continue
            if left[mine].isin(right[theirs]).mean() > 0.5:
                if found:
                    return None
                found = mine, theirs
    return found
