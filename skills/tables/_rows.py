"""The rows of a table that meet a condition, however it is put."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from skills.tables._expressions import among, evaluate, has_lists
from skills.tables._keys import column_name

_OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "=", "in", "not in")
_SHOWN = 8


def rows_where(table: pd.DataFrame, condition: Any, given: tuple[Any, ...]) -> pd.DataFrame:
    if not isinstance(table, pd.DataFrame):
        kind = type(table).__name__
        raise TypeError(f"where: the first argument is a table, as load(path) returns it, not {kind}")
    if given and isinstance(condition, str):
        name = column_name(table, condition, "where")
        chosen = _compared(table, name, given)
    elif isinstance(condition, str):
        chosen = evaluate(table, condition, "where")
    elif callable(condition):
        chosen = _called(table, condition)
    else:
        chosen = condition
    if not isinstance(chosen, pd.Series) or not pd.api.types.is_bool_dtype(chosen):
        raise ValueError("where: give a condition, such as where(table, \"minutes > 30 and town == 'Oslo'\")")
    found = table[chosen.fillna(False).astype(bool)]
    print(f"where: {len(found):,} of {len(table):,} rows")
    if found.empty and isinstance(condition, str):
        _show_values(table, condition)
    return found


def _compared(table: pd.DataFrame, name: Any, given: tuple[Any, ...]) -> Any:
    """where(t, "town", "Oslo"), where(t, "minutes", ">", 30) and where(t, "minutes", lambda m: m > 30)."""
    series = table[name]
    if len(given) == 1 and callable(given[0]):
        return series.map(given[0]).astype(bool)
    if len(given) == 1 and isinstance(given[0], pd.Series):
        return given[0]
    if len(given) == 1 and isinstance(given[0], list | tuple | set):
        return among(series, *given[0]) if has_lists(series) else series.isin(list(given[0]))
    sign, value = given if len(given) == 2 else ("==", given[0])
    if sign not in _OPERATORS:
        raise ValueError(f"where: {sign!r} is no comparison; there are {', '.join(_OPERATORS)}")
    return evaluate(table, f"`{name}` {sign} {value!r}", "where")


def _called(table: pd.DataFrame, condition: Callable[[Any], Any]) -> Any:
    """A function of the table, or of each row."""
    chosen = condition(table)
    return chosen if isinstance(chosen, pd.Series) else table.apply(condition, axis=1)


def _show_values(table: pd.DataFrame, condition: str) -> None:
    """What the columns hold that a condition speaks of, which no row meets."""
    for name in table.columns:
        if str(name) and str(name) in condition:
            column = table[name].explode() if has_lists(table[name]) else table[name]
            values = dict.fromkeys(repr(value)[:40] for value in column.dropna().tolist())
            print(f"where: {name} holds {', '.join(list(values)[:_SHOWN])}")
