"""Rows of a period, totals by group and totals over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from skills.tables._expressions import evaluate, is_expression
from skills.tables._keys import MISSING, NoColumn, column_name, date_column, dates_of, keys_of, numbers_of
from skills.tables._periods import Period, bounds

HOWS = ("sum", "mean", "median", "min", "max", "count", "nunique")
_SAME_HOW = {"avg": "mean", "average": "mean", "total": "sum", "size": "count", "unique": "nunique"}
_COUNTS = ("count", "size")
"""In place of a column: the number of rows is meant."""
EVERY = {"hour": "h", "day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}
_SAME_EVERY = {"daily": "day", **{form.lower(): name for name, form in EVERY.items()}}
_MAX_PERIODS = 100_000
_DIGITS = 14


def rows_in(table: pd.DataFrame, column: str, period: Period) -> pd.DataFrame:
    name = date_column(table, column, "in_period")
    start, end = bounds(period)
    dates = dates_of(table, name, "in_period")
    _say_undated("in_period", name, dates)
    found = table[(dates >= start) & (dates < end)]
    if found.empty and dates.notna().any():
        print(f"in_period: no row in {period}; {name} has {dates.min():%Y-%m-%d} to {dates.max():%Y-%m-%d}")
    return found


def newest_rows(table: pd.DataFrame, by: str | Sequence[str], column: str) -> pd.DataFrame:
    columns = [by] if isinstance(by, str) or by in list(getattr(table, "columns", [])) else by
    names = [column_name(table, name, "latest") for name in columns]
    if not names:
        raise ValueError("latest: by is a column or a list of columns")
    name = column_name(table, column, "latest")
    numbered = pd.api.types.is_numeric_dtype(table[name])
    order = table[name] if numbered else dates_of(table, name, "latest")
    _say_undated("latest", name, order)
    keys = pd.DataFrame({place: keys_of(table[each]).to_numpy() for place, each in enumerate(names)})
    keys["when"] = order.to_numpy()  # by place: tables that were joined may have labels twice
    kept = keys.dropna(subset="when").sort_values("when", kind="stable")
    places = sorted(kept.drop_duplicates(list(range(len(names))), keep="last").index)
    print(f"latest: {len(places):,} of {len(table):,} rows")
    return table.iloc[places]


def group_totals(
    table: pd.DataFrame, by: str | Sequence[str], value: str | None, how: str, top: int | None
) -> pd.Series:
    columns = [by] if isinstance(by, str) or by in list(getattr(table, "columns", [])) else by
    names = [column_name(table, name, "totals") for name in columns]
    if not names:
        raise ValueError("totals: by is a column or a list of columns")
    if top is not None and (not isinstance(top, int) or top < 1):
        raise ValueError(f"totals: top is how many groups to keep, 1 or more, not {top!r}")
    if value in _COUNTS and value not in table:
        value, how = None, "count"
    how = _how(how, value, "totals", table)
    values = _values(table, value, how, "totals")
    keys = [keys_of(table[name]) for name in names]
    result = _aggregate(values.groupby(keys if len(keys) > 1 else keys[0], sort=True), how)
    result.index.names = names
    unnamed = [MISSING in (key if isinstance(key, tuple) else (key,)) for key in result.index]
    result = result.iloc[sorted(range(len(result)), key=unnamed.__getitem__)]  # last of those that are equal
    result = result.sort_values(ascending=False, kind="stable", na_position="last")
    return result if top is None else result.head(top)


def period_totals(table: pd.DataFrame, date: str, value: str | None, every: str, how: str) -> pd.Series:
    every = _SAME_EVERY.get(str(every).lower(), str(every).lower().removesuffix("ly"))
    if every not in EVERY:
        raise ValueError(f"per_period: every is one of {', '.join(EVERY)}, not {every!r}")
    name = date_column(table, date, "per_period")
    if value in _COUNTS and value not in table:
        value, how = None, "count"
    how = _how(how, value, "per_period", table)
    values = _values(table, value, how, "per_period")
    dates = dates_of(table, name, "per_period")
    _say_undated("per_period", name, dates)
    dated = dates.notna().to_numpy()  # by place: tables that were joined may have labels twice
    periods = pd.PeriodIndex(dates[dated].dt.to_period(EVERY[every]))
    result = _aggregate(values[dated].groupby(periods), how)
    if result.empty:
        return result.set_axis(pd.Index([], dtype=object, name=name))
    first, last = periods.min(), periods.max()
    if last.ordinal - first.ordinal >= _MAX_PERIODS:
        raise ValueError(f"per_period: {first} to {last} is too long for every {every}; is a date wrong?")
    whole = pd.period_range(first, last, freq=EVERY[every])
    zero = {"fill_value": 0} if how in ("sum", "count", "nunique") else {}
    result = result.reindex(whole, **zero)
    return result.set_axis(pd.Index([_label(period, every) for period in whole], name=name))


def _say_undated(what: str, name: object, dates: pd.Series) -> None:
    missing = int(dates.isna().sum())
    if missing:
        print(f"{what}: {missing:,} of {len(dates):,} rows without {name} are left out")


def _how(how: str, value: str | None, what: str, table: pd.DataFrame) -> str:
    wanted = _SAME_HOW.get(str(how).lower(), str(how).lower())
    if wanted not in HOWS:
        hint = (
            f"; for both columns write such as '{value} / {how}' as the value"
            if str(how) in list(table.columns)
            else ""
        )
        raise ValueError(f"{what}: how is one of {', '.join(HOWS)}, not {how!r}{hint}")
    if value is None and wanted not in ("sum", "count"):
        raise ValueError(f"{what}: how={how!r} needs value='...', a column; without one, rows are counted")
    return wanted if value is not None else "count"


def _values(table: pd.DataFrame, value: str | None, how: str, what: str) -> pd.Series:
    if value is None:
        return pd.Series(1, index=table.index, name="rows")
    try:
        name = column_name(table, value, what)
    except NoColumn as error:
        if is_expression(value):
            return evaluate(table, value, what).rename(value)
        meant = "every" if value in EVERY else "how" if value in HOWS else ""
        if meant:
            error.message += f"; did you mean {meant}={value!r}?"
        raise
    series = table[name]
    if how == "nunique":
        return keys_of(series).where(series.notna())
    if how == "count" or (pd.api.types.is_datetime64_any_dtype(series) and how in ("min", "max")):
        return series
    return numbers_of(table, name, what)


def _aggregate(groups: Any, how: str) -> pd.Series:
    # A group without any value has no sum; 0 would be one.
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
    return f"{period.year}-Q{period.quarter}" if every == "quarter" else str(period)
