"""Columns of a table as dates, as numbers, or as names of groups."""

from __future__ import annotations

import difflib
from collections import Counter
from typing import Any

import pandas as pd
from tablereader import TOPICS, Column, clean, convert, examine, folded

MISSING = "(missing)"
_READABLE = 0.5
"""Share of a text column that must be readable; a printed note lists the other values."""
_NUMBERED = (
    *((1900, 2100, "%Y"), (190001, 210012, "%Y%m"), (19000101, 21001231, "%Y%m%d")),
    *((10**9, 2.2 * 10**9, "s"), (10**12, 2.2 * 10**12, "ms")),
)
"""Ranges of numbers that are dates: years, months, days, and times since 1970."""


class NoColumn(KeyError):
    """The column does not exist. The argument is the name, as in pandas; the text lists the columns."""

    def __init__(self, wanted: object, message: str) -> None:
        super().__init__(wanted)
        self.message = message

    def __str__(self) -> str:
        return self.message


def column_name(table: pd.DataFrame, wanted: object, what: str) -> Any:
    """Return the name of the column, found without regard to capitals, spaces, `_` and `-`.

    Raises:
        TypeError: `table` is not a table.
        NoColumn: the column does not exist; the message lists the columns.
    """
    if not isinstance(table, pd.DataFrame):
        given = type(table).__name__
        several = "; pd.concat(…) makes one of several" if isinstance(table, list | tuple) else ""
        raise TypeError(
            f"{what}: the first argument is a table, as load(path) returns it, not {given}{several}"
        )
    names = list(table.columns)
    if wanted in names:
        return wanted
    near = [name for name in names if _loose(name) == _loose(wanted)]
    if len(near) == 1:
        return near[0]
    close = difflib.get_close_matches(str(wanted), map(str, names), 1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    raise NoColumn(
        wanted, f"{what}: there is no column {wanted!r}; the columns are: {', '.join(map(str, names))}{meant}"
    )


def dates_of(table: pd.DataFrame, name: Any, what: str) -> pd.Series:
    """Return the column as times without a zone (UTC for zoned times); text is read as in `load`.

    Raises:
        ValueError: the column has no dates.
    """
    series = table[name]
    if isinstance(series.dtype, pd.DatetimeTZDtype):
        return series.dt.tz_convert(None)
    if pd.api.types.is_datetime64_dtype(series):
        return series
    if pd.api.types.is_numeric_dtype(series):
        known = series.dropna()
        for start, end, form in _NUMBERED if len(known) and (known % 1 == 0).all() else ():
            if known.between(start, end).all():
                return _numbered(series.astype("Int64"), form)
    else:
        column = _converted(series, what, dated=True)
        if column.kind == "date":
            return pd.Series(pd.to_datetime(list(column.rows())), index=series.index)
    dates = [str(other) for other in table.columns if pd.api.types.is_datetime64_any_dtype(table[other])]
    hint = f"columns with dates: {', '.join(dates)}" if dates else "no other column has dates"
    raise ValueError(f"{what}: column {name!r} is not a date but {_examples(series)}; {hint}")


def numbers_of(table: pd.DataFrame, name: Any, what: str) -> pd.Series:
    """Return the column as numbers; true is 1, and text is read as in `load`.

    Raises:
        ValueError: the column has other values.
    """
    series = table[name]
    if pd.api.types.is_bool_dtype(series):
        return series.astype(float) if series.isna().any() else series.astype(int)
    if pd.api.types.is_numeric_dtype(series) or pd.api.types.is_timedelta64_dtype(series):
        return series
    column = _converted(series, what)
    if column.kind in ("number", "true/false"):
        return pd.Series(list(column.rows()), index=series.index, name=name, dtype=float)
    numbers = [str(other) for other in table.columns if pd.api.types.is_numeric_dtype(table[other])]
    raise ValueError(
        f"{what}: column {name!r} is not a number but text: {_examples(series)}; columns with numbers:"
        f" {', '.join(numbers) or 'none'}. To make numbers of it:"
        f" table[{name!r}] = pd.to_numeric(table[{name!r}], errors='coerce')."
        " To count rows, leave value out."
    )


def keys_of(series: pd.Series) -> pd.Series:
    """Return the names of groups: similar spellings as the most common spelling, dates as text."""
    if pd.api.types.is_datetime64_any_dtype(series):
        known = series.dropna()
        whole = bool((known == known.dt.normalize()).all())
        series = series.dt.strftime("%Y-%m-%d" if whole else "%Y-%m-%d %H:%M:%S")
    elif pd.api.types.is_float_dtype(series) and (series.dropna() % 1 == 0).all():
        series = series.astype("Int64")
    if pd.api.types.is_numeric_dtype(series) and series.notna().all():
        return series
    plain = series.map(lambda value: repr(value) if isinstance(value, list | dict) else value)
    codes, unique = pd.factorize(plain)
    counts = Counter(codes.tolist())
    forms: dict[object, Counter[object]] = {}
    keys = []
    for code, value in enumerate(unique):
        key = (str, folded(value)) if isinstance(value, str) else (type(value), value)
        forms.setdefault(key, Counter())[clean(value) if isinstance(value, str) else value] += counts[code]
        keys.append(key)
    merged = [" = ".join(map(str, form)) for form in forms.values() if len(form) > 1]
    if merged:
        print(f"{series.name}: counted as one: {'; '.join(merged[:3])}{'; …' if len(merged) > 3 else ''}")
    names = [forms[key].most_common(1)[0][0] for key in keys]
    if -1 in counts or len({type(name) for name in names}) > 1:  # only names of one type can be sorted
        names = [str(name) for name in names]
    return pd.Series([*names, MISSING], dtype=object).take(codes).set_axis(series.index).rename(series.name)


def _loose(name: object) -> str:
    return folded(str(name)).replace("_", "").replace("-", "")


def _numbered(series: pd.Series, form: str) -> pd.Series:
    if form in ("s", "ms"):
        return pd.to_datetime(series, unit=form)
    return pd.to_datetime(series.astype("string"), format=form, errors="coerce")


def _converted(series: pd.Series, what: str, *, dated: bool = False) -> Column:
    cells = [None if gone else value for value, gone in zip(series, series.isna(), strict=True)]
    column = examine(str(series.name), cells, dated=dated)
    convert([column], _READABLE)
    for topic, note in column.notes.items():
        if topic != "missing":
            print(f"{what}: {TOPICS.get(topic, topic)}: {note}")
    return column


def _examples(series: pd.Series) -> str:
    return ", ".join(repr(value)[:40] for value in series.dropna().head(3).tolist()) or "nothing"
