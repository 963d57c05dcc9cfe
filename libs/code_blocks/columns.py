"""What an output tells of an error about tables, and what that says of a column that is not there."""

# ruff: noqa: E501 - prose

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = [
    "SHOWN",
    "SUBSCRIPT",
    "Failure",
    "computed",
    "in_lists",
    "missing_column",
    "missing_columns",
    "tables_in",
]

_TABLE = re.compile(r"^\[(\w+): a DataFrame of [\d,]+ rows with the columns (.*)\]$", re.MULTILINE)
_COLUMN = re.compile(r"(.+?) \([\w\[\]<>. -]+\)(?:, |$| and \d+ more)")
_LISTS = re.compile(r"^lists: .*?such as where\(table, '(.+?)', ", re.MULTILINE)
SUBSCRIPT = re.compile(r"""(\w+)\[(["'])(.+?)\2\]""")
"""A column of a table, as code names it."""
_GROUPED = re.compile(r"\b(?:groupby|set_index|value_counts|pivot_table|totals|per_period)\(")
_OPERATOR = re.compile(r"\s*([-+*/])\s*")
_WORDS = {"/": "per", "*": "times", "+": "plus", "-": "minus"}
SHOWN = 12
"""Names that are listed at most."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What an output tells of an error."""

    output: str
    code: str
    """The block, "" where it is not known."""
    line: str
    """The line of the block in which it happened, "" where that is not known."""
    tables: dict[str, list[str]]
    """The columns of the DataFrames there are."""
    imports: Mapping[str, str]
    """How what is forgotten most often is imported."""

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for columns in self.tables.values() for name in columns))


def tables_in(output: str) -> dict[str, list[str]]:
    """The columns of the tables that the interpreter has listed below an error."""
    return {name: _COLUMN.findall(said) for name, said in _TABLE.findall(output)}


def in_lists(output: str, code: str) -> str:
    """How rows are chosen by a column of lists, where `load` has said that a table has one, and the code compares
    it with a value; else "".
    """
    found = _LISTS.search(output)
    column = found[1] if found else ""
    if not column or not re.search(rf"""\[(["']){re.escape(column)}\1\](?: *==|\.(?:isin|str)\b)""", code):
        return ""
    return (
        f"The values of {column!r} are lists: comparing them with == finds nothing. Write `where(t, {column!r}, …)` with the "
        "value that is looked for in the lists."
    )


def missing_column(said: Sequence[str], failure: Failure) -> str:
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
    if made := computed(name, failure):
        return made
    if not failure.columns:
        return ""
    there = ", ".join(map(repr, failure.columns[:SHOWN]))
    if near := difflib.get_close_matches(name, failure.columns, 1, 0.6):
        return f"There is no column {name!r}. Write {near[0]!r} instead. The columns are: {there}."
    table = next(
        (each for each in failure.tables if re.search(rf"\b{each}\b", failure.line)),
        next(iter(failure.tables)),
    )
    return (
        f"No table has a column {name!r}. There are: {there}. One that is computed from others is made first: "
        f"`{table}[{name!r}] = …`."
    )


def missing_columns(said: Sequence[str], failure: Failure) -> str:
    """Of several that were asked for in a list: values of a column, where that is what they are."""
    first = re.search(r"'([^']*)'", said[0])
    named = re.search(r"\w+\[(\w+)\]", failure.line)
    if said[1] == "are in the [columns]" and failure.columns and named and first:
        there = ", ".join(map(repr, failure.columns[:SHOWN]))
        return (
            f"{named[1]} holds values such as {first[1]!r}: no names of columns. Write those that are meant in a list, "
            f"such as [{', '.join(map(repr, failure.columns[-2:]))}]. There are: {there}."
        )
    return missing_column([first[1]], failure) if first else ""


def _made_before(name: str, owner: str, failure: Failure) -> str:
    """What to say where another table has the column: "" where they belong to different files.

    The interpreter has said how two tables are joined. But one that was loaded again wants no join.
    """
    lacking = next((table for table, _, column in SUBSCRIPT.findall(failure.line) if column == name), "")
    columns = set(failure.tables.get(lacking, ()))
    if not columns or len(columns & set(failure.tables[owner])) * 2 <= len(columns):
        return ""
    return (
        f"{lacking} was loaded again in this block, so the column {name!r} that had been made is gone. Make it again here, "
        "in a line before it is used."
    )


def computed(name: str, failure: Failure) -> str:
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
