"""The next line of code after an error: a small model that reads only what was wrong says the same again.

What is advised rests on the traceback, and on the lines that the interpreter adds to it about the tables and
modules at hand (see `libs.sandbox.repl`). Where neither tells what would help, nothing is.
"""

# ruff: noqa: E501 - prose

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from libs.code_blocks.afresh import error_line, failing_line
from libs.code_blocks.columns import (
    SHOWN,
    SUBSCRIPT,
    Failure,
    computed,
    in_lists,
    missing_column,
    missing_columns,
    tables_in,
)

__all__ = ["advice"]

_OFFERED = re.compile(r"^\[([\w.]+) has (.*)\]$", re.MULTILINE)
_USUAL = {
    **{"pd": "import pandas as pd", "np": "import numpy as np", "plt": "import matplotlib.pyplot as plt"},
    **{name: f"import {name}" for name in ("csv", "json", "math", "os", "re", "sys")},
    **{name: f"from datetime import {name}" for name in ("date", "datetime", "timedelta")},
    **{name: f"from collections import {name}" for name in ("Counter", "defaultdict")},
    **{"Path": "from pathlib import Path", "glob": "from glob import glob"},
}
"""How what is forgotten most often is imported."""
_METHODS = {
    "count": "`len(table)` is the number of rows of a table",
    **{name: f'`table["column"].{name}()` does it' for name in ("max", "mean", "median", "min", "sum")},
    "sort": '`table.sort_values("column", ascending=False)` does it',
    "group": '`totals(table, "group", "column")` does it',
    "groupby": '`totals(table, "group", "column")` does it',
}
"""What tables do themselves, and small models import."""


def advice(output: str, imports: Mapping[str, str] = MappingProxyType({}), code: str = "") -> str:
    """What to write instead, of what a block printed that failed; "" where that cannot be told.

    Args:
        code: the block; where it is known and the mend is certain, the whole of it is given, mended.
        imports: name -> the line that imports it, of functions that a model is told of. One called `load` is
            taken for what makes a table of a file.
    """
    error = error_line(output)
    failure = Failure(output, code, failing_line(output), tables_in(output), {**_USUAL, **imports})
    for pattern, advise in _RULES:
        if found := re.search(pattern, error):
            return advise(found.groups(), failure)
    return ""


def _no_number(said: Sequence[str], failure: Failure) -> str:
    if "astype" not in failure.line and "to_numeric" not in failure.line:
        return ""
    column = next((name for _, _, name in SUBSCRIPT.findall(failure.line)), None)
    what = f"The column {column!r}" if column else "What is converted there"
    return (
        f"{what} holds text such as {said[0]!r}: names, not numbers. Leave the conversion of it out. Columns that hold "
        "numbers are numbers already."
    )


def _no_name(said: Sequence[str], failure: Failure) -> str:
    name = said[0]
    if name in failure.imports:
        begin = f"Begin the block with: {failure.imports[name]}"
        return begin + _whole(f"{failure.imports[name]}\n{failure.code}" if failure.code else "")
    table = next((table for table, columns in failure.tables.items() if name in columns), None)
    if table:
        return f"{name!r} is a column: write {table}[{name!r}]."
    return f"Nothing is called {name!r} so far: make it in this block before it is used."


def _no_import(said: Sequence[str], failure: Failure) -> str:
    name, module = said
    offered = [
        each
        for where, names in _OFFERED.findall(failure.output)
        if where == module
        for each in names.split(", ")
    ]
    if name in _METHODS and "load" in failure.imports:
        return f"There is no {name!r} to import: {_METHODS[name]}. Change that alone, the rest of the block stays."
    near = difflib.get_close_matches(name, offered, 1, 0.6)
    has = f" It has {', '.join(offered[:SHOWN])}." if offered else ""
    instead = (
        f"Write {near[0]!r} instead" if near else "Leave it out of the import, and do its work with pandas"
    )
    return f"{module} has no {name!r}.{has} {instead}."


def _no_attribute(said: Sequence[str], failure: Failure) -> str:
    kind, name = said
    if kind == "DataFrame":
        return missing_column([name], failure)
    if name in ("columns", "merge", "query", "sort_by"):
        return "It is a Series: one column with an index. `.reset_index()` makes a DataFrame of it."
    return ""


def _not_alike(said: Sequence[str], failure: Failure) -> str:  # noqa: ARG001
    table, column = next(((table, name) for table, _, name in SUBSCRIPT.findall(failure.line)), ("t", "…"))
    return (
        "One side of that is text. If it should be a number, write before:\n"
        f"{table}[{column!r}] = pd.to_numeric({table}[{column!r}], errors='coerce')\n"
        "and with pd.to_datetime if it should be a date."
    )


def _no_object(said: Sequence[str], failure: Failure) -> str:  # noqa: ARG001
    how = (
        f"`{failure.imports['load']}`, then `t = load(…)` with the path of the file"
        if "load" in failure.imports
        else f"`{failure.imports['pd']}`, then `t = pd.DataFrame(…)`"
    )
    return (
        "That is a list, each of whose elements is an object. As a table with a row for each of them it is easier: "
        f"{how}, and t has columns."
    )


def _no_date(said: Sequence[str], failure: Failure) -> str:  # noqa: ARG001
    how = (
        "`load` makes dates of a column of dates; of another, `pd.to_datetime(…)` does."
        if "load" in failure.imports
        else "`pd.to_datetime(…)` makes one of it."
    )
    return f"That column is no date. {how}"


def _no_such_period(said: Sequence[str], failure: Failure) -> str:  # noqa: ARG001
    found = re.search(r"strptime\((\w+\[.+?\])", failure.line)
    column = found[1] if found else 't["day"]'
    return (
        f"`load` has made dates of them already: nothing is to be parsed. The month is "
        f'`{column}.dt.strftime("%Y-%m")`, the weekday `{column}.dt.day_name()`.'
    )


def _no_row(said: Sequence[str], failure: Failure) -> str:  # noqa: ARG001
    look = "Print the values of the columns that it uses, to see how they are written."
    return f"No row is left there: a condition before it is met by none. {in_lists(failure.output, failure.code) or look}"


def _no_option(said: Sequence[str], failure: Failure) -> str:
    """The line in which a function was called with options that it does not have, without them."""
    function, options = said[0], said[1].split(", ")
    without = f"Leave `{'=`, `'.join(options)}=` out of the call of {function}; all else stays."
    try:
        tree = ast.parse(failure.line)
    except (SyntaxError, ValueError):  # it goes on in the next line
        return without
    left_out = 0
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] == function:
            kept = [each for each in call.keywords if each.arg not in options]
            left_out += len(call.keywords) - len(kept)
            call.keywords = kept
    if not left_out:
        return without
    mended = ast.unparse(tree)
    whole = _whole(failure.code.replace(failure.line, mended)) if failure.line in failure.code else ""
    return without + (whole or f" That line is then:\n{mended}")


def _whole(code: str) -> str:
    """The mended block, "" where it is none: what stands before it a small model sends as it is."""
    return (
        f"\n\nThe whole block is then:\n```python\n{code.rstrip()}\n```" if code and "```" not in code else ""
    )


def _always(text: str) -> Callable[[Sequence[str], Failure], str]:
    return lambda said, failure: text  # noqa: ARG005


_RULES: tuple[tuple[str, Callable[[Sequence[str], Failure], str]], ...] = (
    (
        r"^KeyError: .(?:None of )?\[(?:Index\(\[)?(.*)\](?:,.*\)\])? (are in the \[columns\]|not in index)",
        missing_columns,
    ),
    (r"^KeyError: ['\"](?:Column not found: )?(.*)['\"]$", missing_column),
    # The skill `tables`, which says itself what is nearest.
    (r"there is no column ['\"](.*?)['\"];", lambda said, failure: computed(said[0], failure)),
    (r"^ImportError: cannot import name '(\w+)' from '([\w.]+)'", _no_import),
    (
        r"^ModuleNotFoundError: No module named '([\w.]+)'",
        lambda said, failure: f"{said[0]} is not installed: do it with Python itself, pandas or numpy.",  # noqa: ARG005
    ),
    (r"^ValueError: (?:invalid literal for int\(\).*|could not convert string to float): '(.*)'", _no_number),
    (r"^ValueError: Unable to parse string \"(.*)\"", _no_number),
    (r"^NameError: name '(\w+)' is not defined", _no_name),
    (r"^AttributeError: '(DataFrame|Series)' object has no attribute '(\w+)'", _no_attribute),
    (r"^AttributeError: Can only use \.dt accessor", _no_date),
    (r"^TypeError: strptime\(\) argument 1 must be str, not (?:Series|Timestamp)", _no_such_period),
    (
        r"^TypeError: Series\.sort_values\(\) takes 1 positional argument",
        _always(
            "It is a Series, a value for each group: sort it by `.sort_values(ascending=False)`, without a name. What "
            "`totals` makes is sorted already: `.index[0]` is the first group, `.iloc[0]` its value."
        ),
    ),
    (
        r"^TypeError: (\w+)(?:\(\) got an unexpected keyword argument '|: there is no option )(\w+(?:, \w+)*)",
        _no_option,
    ),
    (
        r"^(?:pandas\.errors\.)?IntCastingNaNError",
        _always(
            "Leave `.astype(int)` out: the column holds numbers already, with gaps, which sums and means leave aside."
        ),
    ),
    (
        r"^ValueError: numeric_only accepts only Boolean values",
        _always('Choose the column before it is added up: `t.groupby("group")["number"].sum()`.'),
    ),
    (
        r"^AttributeError: Can only use \.str accessor",
        _always("That column is no text: compare it with a number or a date, and leave `.str` out."),
    ),
    (
        r"^ValueError: The truth value of a Series is ambiguous|^TypeError: (?:unsupported operand type\(s\) for [&|]|Cannot perform 'r?(?:and|or)_')",
        _always(
            'Rows are chosen by one condition in each line: first `t = t[t["a"] > 1]`, then `t = t[t["b"] == "x"]`.'
        ),
    ),
    (r"^TypeError: list indices must be integers or slices", _no_object),
    (
        r"^IndexError: (?:single positional indexer|index 0) is out",
        _no_row,
    ),
    (
        r"^TypeError: (?:agg function failed|Could not convert|can only concatenate str)|does not support (?:operation|reduction) '(?:mean|sum|median)'",
        _always('Choose the column of numbers before that: `t.groupby("group")["number"].mean()`.'),
    ),
    (
        r"^TypeError: (?:'[<>]=?' not supported between|unsupported operand type\(s\) for -|Invalid comparison between)",
        _not_alike,
    ),
)
"""What the line of an error says -> what to say to that."""
