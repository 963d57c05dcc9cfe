"""Groups and periods of a table that is loaded: rows of a period, totals by column, totals per month."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pandas as pd

from skills.tables._cells import clean
from skills.tables._columns import convert, examine
from skills.tables._periods import Period, bounds

HOWS = ("sum", "mean", "median", "min", "max", "count", "nunique")
_SAME_HOW = {"avg": "mean", "average": "mean", "total": "sum", "size": "count", "unique": "nunique"}
_EVERY = {"hour": "h", "day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}
_SAME_EVERY = {"daily": "day", **{form.lower(): name for name, form in _EVERY.items()}}
_MISSING = "(missing)"
_MAX_PERIODS = 100_000
_DIGITS = 14


def folded(text: str) -> str:
    """The text without what differs between spellings: capitals and spaces."""
    return "".join(text.split()).casefold()


def column_name(table: pd.DataFrame, wanted: object, what: str) -> Any:
    """The column that is meant; capitals, spaces, `_` and `-` need not be right.

    Raises:
        TypeError: `table` is no table.
        LookupError: there is no such column; the message lists those there are.
    """
    if not isinstance(table, pd.DataFrame):
        raise TypeError(
            f"the first argument is a table: table = load('/data/file.csv'), not {type(table).__name__}"
        )
    if wanted in list(table.columns):
        return wanted
    near = [name for name in table.columns if _loose(name) == _loose(wanted)]
    if len(near) == 1:
        return near[0]
    names = ", ".join(map(str, table.columns))
    raise LookupError(f"{what}: there is no column {wanted!r}; the columns are: {names}")


def rows_in(table: pd.DataFrame, column: str, period: Period) -> pd.DataFrame:
    name = column_name(table, column, "in_period")
    start, end = bounds(period)
    dates = _dates(table, name, "in_period")
    found = table[(dates >= start) & (dates < end)]
    if found.empty:
        print(f"in_period: no row in {period}; {name} has {dates.min():%Y-%m-%d} to {dates.max():%Y-%m-%d}")
    return found


def group_totals(
    table: pd.DataFrame, by: str | Sequence[str], value: str | None, how: str, top: int | None
) -> pd.Series:
    names = [column_name(table, name, "totals") for name in ([by] if isinstance(by, str) else by)]
    if not names:
        raise ValueError("totals: by is a column or a list of columns")
    if top is not None and top < 1:
        raise ValueError(f"totals: top is how many groups to keep, 1 or more, not {top}")
    how = _how(how, value, "totals")
    values = _values(table, value, how, "totals")
    keys = [_keys(table[name]) for name in names]
    result = _aggregate(values.groupby(keys if len(keys) > 1 else keys[0], sort=True), how)
    result.index.names = names
    result = result.sort_values(ascending=False, kind="stable", na_position="last")
    return result if top is None else result.head(top)


def period_totals(table: pd.DataFrame, date: str, value: str | None, every: str, how: str) -> pd.Series:
    every = _SAME_EVERY.get(str(every).lower(), str(every).lower().removesuffix("ly"))
    if every not in _EVERY:
        raise ValueError(f"per_period: every is one of {', '.join(_EVERY)}, not {every!r}")
    name = column_name(table, date, "per_period")
    how = _how(how, value, "per_period")
    values = _values(table, value, how, "per_period")
    dates = _dates(table, name, "per_period")
    dated = dates.notna()
    if not dated.all():
        print(f"per_period: {(~dated).sum():,} rows without {name} are left out")
    periods = dates[dated].dt.to_period(_EVERY[every])
    result = _aggregate(values[dated].groupby(periods), how)
    first, last = periods.min(), periods.max()
    if last.ordinal - first.ordinal >= _MAX_PERIODS:
        raise ValueError(f"per_period: {first} to {last} is too long for every {every}; is a date wrong?")
    whole = pd.period_range(first, last, freq=_EVERY[every])
    empty = ~whole.isin(result.index)
    if how in ("sum", "count", "nunique"):
        result = result.reindex(whole, fill_value=0)
    else:
        result = result.reindex(whole)
    assert len(empty) == len(result)
    result.index = pd.Index([_label(period, every) for period in whole], name=name)
    return result


def _loose(name: object) -> str:
    return folded(str(name)).replace("_", "").replace("-", "")


def _converted(series: pd.Series, name: str) -> Any:
    column = examine(name, [None if _absent(value) else value for value in series])
    convert([column])
    return column


def _absent(value: object) -> bool:
    return not isinstance(value, list | dict) and bool(pd.isna(value))


def _dates(table: pd.DataFrame, name: Any, what: str) -> pd.Series:
    series = table[name]
    if isinstance(series.dtype, pd.DatetimeTZDtype):
        return series.dt.tz_convert(None)
    if pd.api.types.is_datetime64_dtype(series):
        return series
    if pd.api.types.is_numeric_dtype(series) and not pd.api.types.is_bool_dtype(series):
        known = series.dropna()
        if len(known) and known.between(1900, 2100).all() and (known % 1 == 0).all():
            return pd.to_datetime(series.astype("Int64").astype("string"), format="%Y")
    else:
        column = _converted(series, str(name))
        if column.kind == "date":
            return pd.Series(pd.to_datetime(list(column.rows())), index=series.index)
    dates = [str(other) for other in table.columns if pd.api.types.is_datetime64_any_dtype(table[other])]
    examples = ", ".join(repr(value) for value in series.dropna().head(3).tolist()) or "nothing"
    hint = f"columns with dates: {', '.join(dates)}" if dates else "load(path) makes dates of text"
    raise ValueError(f"{what}: column {name!r} has no dates but {examples}; {hint}")


def _how(how: str, value: str | None, what: str) -> str:
    wanted = _SAME_HOW.get(str(how).lower(), str(how).lower())
    if wanted not in HOWS:
        raise ValueError(f"{what}: how is one of {', '.join(HOWS)}, not {how!r}")
    if value is None and wanted not in ("sum", "count"):
        raise ValueError(f"{what}: how={how!r} needs a column: value='...'; without one, rows are counted")
    return wanted if value is not None else "count"


def _values(table: pd.DataFrame, value: str | None, how: str, what: str) -> pd.Series:
    if value is None:
        return pd.Series(1, index=table.index, name="rows")
    name = column_name(table, value, what)
    series = table[name]
    if how == "nunique":
        return _keys(series).where(series.notna())
    if how == "count" or (pd.api.types.is_datetime64_any_dtype(series) and how in ("min", "max")):
        return series
    if pd.api.types.is_bool_dtype(series):
        return series.astype(float) if series.isna().any() else series.astype(int)
    if pd.api.types.is_numeric_dtype(series):
        return series
    column = _converted(series, str(name))
    if column.kind == "number" and "unreadable" not in column.notes:
        return pd.Series(list(column.rows()), index=series.index, name=name, dtype=float)
    numbers = [str(other) for other in table.columns if pd.api.types.is_numeric_dtype(table[other])]
    examples = ", ".join(repr(value) for value in series.dropna().unique()[:3].tolist()) or "nothing"
    raise ValueError(
        f"{what}: column {name!r} is no number but text such as {examples}. Columns of numbers:"
        f" {', '.join(numbers) or 'none'}. To make numbers of what can be read:"
        f" table[{name!r}] = pd.to_numeric(table[{name!r}], errors='coerce')."
        " To count rows, leave value out."
    )


def _keys(series: pd.Series) -> pd.Series:
    """What the groups are called: spellings that are alike as the commonest of them, dates as text."""
    if pd.api.types.is_datetime64_any_dtype(series):
        whole = bool((series.dropna() == series.dropna().dt.normalize()).all())
        series = series.dt.strftime("%Y-%m-%d" if whole else "%Y-%m-%d %H:%M:%S")
    elif pd.api.types.is_float_dtype(series) and (series.dropna() % 1 == 0).all():
        series = series.astype("Int64")
    if pd.api.types.is_numeric_dtype(series) and series.notna().all():
        return series
    values = [
        None if _absent(value) else clean(value) if isinstance(value, str) else value for value in series
    ]
    forms: dict[object, Counter[object]] = {}
    keys = [folded(value) if isinstance(value, str) else repr(value) for value in values]
    for key, value in zip(keys, values, strict=True):
        forms.setdefault(key, Counter())[value if _hashable(value) else repr(value)] += 1
    best = {key: form.most_common(1)[0][0] for key, form in forms.items()}
    merged = [" = ".join(map(str, form)) for form in forms.values() if len(form) > 1]
    if merged:
        print(f"{series.name}: counted as one: {'; '.join(merged[:3])}{'; …' if len(merged) > 3 else ''}")
    named = [
        _MISSING if value is None or best[key] is None else best[key]
        for key, value in zip(keys, values, strict=True)
    ]
    if any(not isinstance(name, str) for name in named) and _MISSING in named:
        named = [str(name) for name in named]
    return pd.Series(named, index=series.index, name=series.name, dtype=object)


def _hashable(value: object) -> bool:
    return not isinstance(value, list | dict)


def _aggregate(groups: Any, how: str) -> pd.Series:
    result = groups.sum(min_count=1) if how == "sum" else getattr(groups, how)()
    if how in ("sum", "mean", "median") and pd.api.types.is_float_dtype(result):
        # 0.1 + 0.2 is 0.3, not 0.30000000000000004.
        result = result.map(lambda value: value if pd.isna(value) else float(f"{value:.{_DIGITS}g}"))
    return result


def _label(period: pd.Period, every: str) -> str:
    if every == "week":
        year, week, _ = period.start_time.isocalendar()
        return f"{year}-W{week:02}"
    if every == "hour":
        return period.strftime("%Y-%m-%d %H:00")
    return {"quarter": f"{period.year}-Q{period.quarter}"}.get(every, str(period))
