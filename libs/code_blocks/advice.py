"""The next line of code after an error: a small model that reads only what was wrong says the same again.

What is advised rests on the traceback, and on the lines that the interpreter adds to it about the tables and
modules at hand (see `libs.sandbox.repl`). Where neither tells what would help, nothing is.
"""

# ruff: noqa: E501 - prose

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from libs.code_blocks.afresh import error_line, failing_line

__all__ = ["advice"]

_TABLE = re.compile(r"^\[(\w+): a DataFrame of [\d,]+ rows with the columns (.*)\]$", re.MULTILINE)
_COLUMN = re.compile(r"(.+?) \([\w\[\]<>. -]+\)(?:, |$| and \d+ more)")
_OFFERED = re.compile(r"^\[([\w.]+) has (.*)\]$", re.MULTILINE)
_SUBSCRIPT = re.compile(r"""(\w+)\[(["'])(.+?)\2\]""")
_GROUPED = re.compile(r"\b(?:groupby|set_index|value_counts|pivot_table|totals|per_period)\(")
_OPERATOR = re.compile(r"\s*([-+*/])\s*")
_WORDS = {"/": "per", "*": "times", "+": "plus", "-": "minus"}
_USUAL = {
    **{"pd": "import pandas as pd", "np": "import numpy as np", "plt": "import matplotlib.pyplot as plt"},
    **{name: f"import {name}" for name in ("csv", "json", "math", "os", "re", "sys")},
    **{name: f"from datetime import {name}" for name in ("date", "datetime", "timedelta")},
    **{name: f"from collections import {name}" for name in ("Counter", "defaultdict")},
    **{"Path": "from pathlib import Path", "glob": "from glob import glob"},
}
"""How what is forgotten most often is imported."""
_SHOWN = 12
"""Names that are listed at most."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """What an output tells of an error."""

    output: str
    line: str
    """The line of the block in which it happened, "" where that is not known."""
    tables: dict[str, list[str]]
    """The columns of the DataFrames there are."""
    imports: Mapping[str, str]
    """How what is forgotten most often is imported."""

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for columns in self.tables.values() for name in columns))


def advice(output: str, imports: Mapping[str, str] = MappingProxyType({})) -> str:
    """What to write instead, of what a block printed that failed; "" where that cannot be told.

    Args:
        imports: name -> the line that imports it, of functions that a model is told of. One called `load` is
            taken for what makes a table of a file.
    """
    error = error_line(output)
    tables = {name: _COLUMN.findall(said) for name, said in _TABLE.findall(output)}
    failure = _Failure(output, failing_line(output), tables, {**_USUAL, **imports})
    for pattern, advise in _RULES:
        if found := re.search(pattern, error):
            return advise(found.groups(), failure)
    return ""


def _missing_column(said: Sequence[str], failure: _Failure) -> str:
    name = said[0]
    owner = next((table for table, columns in failure.tables.items() if name in columns), None)
    if owner is not None:
        if not _GROUPED.search(failure.line):
            return _made_before(name, owner, failure)
        return (
            f"{name!r} is a column of {owner}, but what a group-by makes has it as its index, or has lost it. Keep that "
            "in a name of its own, and take the group from its index: `result.index[0]` is the first group, "
            "`result.iloc[0]` the first value."
        )
    if made := _computed(name, failure):
        return made
    if not failure.columns:
        return ""
    near = difflib.get_close_matches(name, failure.columns, 1, 0.6)
    meant = f" The nearest is {near[0]!r}." if near else ""
    there = ", ".join(map(repr, failure.columns[:_SHOWN]))
    return (
        f"No table has a column {name!r}.{meant} There are: {there}. One that is computed from others is made first: "
        f"`{next(iter(failure.tables))}[{name!r}] = …`."
    )


def _missing_columns(said: Sequence[str], failure: _Failure) -> str:
    """Of several that were asked for in a list: values of a column, where that is what they are."""
    first = re.search(r"'([^']*)'", said[0])
    named = re.search(r"\w+\[(\w+)\]", failure.line)
    if said[1] == "are in the [columns]" and failure.columns and named and first:
        there = ", ".join(map(repr, failure.columns[:_SHOWN]))
        return (
            f"{named[1]} holds values such as {first[1]!r}: no names of columns. Write those that are meant in a list, "
            f"such as [{', '.join(map(repr, failure.columns[-2:]))}]. There are: {there}."
        )
    return _missing_column([first[1]], failure) if first else ""


def _made_before(name: str, owner: str, failure: _Failure) -> str:
    """What to say where another table has the column: "" where they belong to different files.

    The interpreter has said how two tables are joined. But one that was loaded again wants no join.
    """
    lacking = next((table for table, _, column in _SUBSCRIPT.findall(failure.line) if column == name), "")
    columns = set(failure.tables.get(lacking, ()))
    if not columns or len(columns & set(failure.tables[owner])) * 2 <= len(columns):
        return ""
    return (
        f"{lacking} was loaded again in this block, so the column {name!r} that had been made is gone. Make it again here, "
        "in a line before it is used."
    )


def _computed(name: str, failure: _Failure) -> str:
    """How a column is made whose name is a calculation with others, as in price/weight; "" where it is none."""
    parts = _OPERATOR.split(name)
    operands, operators = parts[::2], parts[1::2]
    for table, columns in failure.tables.items() if operators else ():
        if any(part in columns for part in operands) and all(
            part in columns or re.fullmatch(r"\d+(?:\.\d+)?", part) for part in operands
        ):
            values = [f"{table}[{part!r}]" if part in columns else part for part in operands]
            code, new = values[0], operands[0]
            for operator, value, part in zip(operators, values[1:], operands[1:], strict=True):
                code += f" {operator} {value}"
                new += f"_{_WORDS[operator]}_{part}"
            new = re.sub(r"[\W_]+", "_", new).strip("_")
            return (
                f"{name!r} is a calculation, not a column. Make the column in a line before:\n"
                f"{table}[{new!r}] = {code}\n"
                f"and then write {new!r} wherever {name!r} stood."
            )
    return ""


def _no_number(said: Sequence[str], failure: _Failure) -> str:
    if "astype" not in failure.line and "to_numeric" not in failure.line:
        return ""
    column = next((name for _, _, name in _SUBSCRIPT.findall(failure.line)), None)
    what = f"The column {column!r}" if column else "What is converted there"
    return (
        f"{what} holds text such as {said[0]!r}: names, not numbers. Leave the conversion of it out. Columns that hold "
        "numbers are numbers already."
    )


def _no_name(said: Sequence[str], failure: _Failure) -> str:
    name = said[0]
    if name in failure.imports:
        return f"Begin the block with: {failure.imports[name]}"
    table = next((table for table, columns in failure.tables.items() if name in columns), None)
    if table:
        return f"{name!r} is a column: write {table}[{name!r}]."
    return f"Nothing is called {name!r} so far: make it in this block before it is used."


def _no_import(said: Sequence[str], failure: _Failure) -> str:
    name, module = said
    offered = [
        each
        for where, names in _OFFERED.findall(failure.output)
        if where == module
        for each in names.split(", ")
    ]
    near = difflib.get_close_matches(name, offered, 1, 0.6)
    has = f" It has {', '.join(offered[:_SHOWN])}." if offered else ""
    instead = (
        f"Write {near[0]!r} instead" if near else "Leave it out of the import, and do its work with pandas"
    )
    return f"{module} has no {name!r}.{has} {instead}."


def _no_attribute(said: Sequence[str], failure: _Failure) -> str:
    kind, name = said
    if kind == "DataFrame":
        return _missing_column([name], failure)
    if name in ("columns", "merge", "query", "sort_by"):
        return "It is a Series: one column with an index. `.reset_index()` makes a DataFrame of it."
    return ""


def _not_alike(said: Sequence[str], failure: _Failure) -> str:  # noqa: ARG001
    table, column = next(((table, name) for table, _, name in _SUBSCRIPT.findall(failure.line)), ("t", "…"))
    return (
        "One side of that is text. If it should be a number, write before:\n"
        f"{table}[{column!r}] = pd.to_numeric({table}[{column!r}], errors='coerce')\n"
        "and with pd.to_datetime if it should be a date."
    )


def _no_object(said: Sequence[str], failure: _Failure) -> str:  # noqa: ARG001
    how = (
        f"`{failure.imports['load']}`, then `t = load(…)` with the path of the file"
        if "load" in failure.imports
        else f"`{failure.imports['pd']}`, then `t = pd.DataFrame(…)`"
    )
    return (
        "That is a list, each of whose elements is an object. As a table with a row for each of them it is easier: "
        f"{how}, and t has columns."
    )


def _no_date(said: Sequence[str], failure: _Failure) -> str:  # noqa: ARG001
    how = (
        "`load` makes dates of a column of dates; of another, `pd.to_datetime(…)` does."
        if "load" in failure.imports
        else "`pd.to_datetime(…)` makes one of it."
    )
    return f"That column is no date. {how}"


def _always(text: str) -> Callable[[Sequence[str], _Failure], str]:
    return lambda said, failure: text  # noqa: ARG005


_RULES: tuple[tuple[str, Callable[[Sequence[str], _Failure], str]], ...] = (
    (
        r"^KeyError: .(?:None of )?\[(?:Index\(\[)?(.*)\](?:,.*\)\])? (are in the \[columns\]|not in index)",
        _missing_columns,
    ),
    (r"^KeyError: ['\"](.*)['\"]$", _missing_column),
    # The skill `tables`, which says itself what is nearest.
    (r"there is no column ['\"](.*?)['\"];", lambda said, failure: _computed(said[0], failure)),
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
        _always(
            "No row is left there: a condition before it is met by none. Print the values of the columns that it uses, to "
            "see how they are written."
        ),
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
