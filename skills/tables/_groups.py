"""Rows of a period, totals by group and totals over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from skills.tables._keys import MISSING, column_name, dates_of, keys_of, numbers_of
from skills.tables._periods import Period, bounds

HOWS = ("sum", "mean", "median", "min", "max", "count", "nunique")
EVERY = {"hour": "h", "day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}
_MAX_PERIODS = 100_000
_DIGITS = 14


def rows_in(table: pd.DataFrame, column: str, period: Period) -> pd.DataFrame:
    name = column_name(table, column, "in_period")
    start, end = bounds(period)
    dates = dates_of(table, name, "in_period")
    _say_undated("in_period", name, dates)
    found = table[(dates >= start) & (dates < end)]
    if found.empty and dates.notna().any():
        print(f"in_period: no row in {period}; {name} has {dates.min():%Y-%m-%d} to {dates.max():%Y-%m-%d}")
    return found


def group_totals(
    table: pd.DataFrame, by: str | Sequence[str], value: str | None, how: str, top: int | None
) -> pd.Series:
    columns = [by] if isinstance(by, str) or by in list(getattr(table, "columns", [])) else by
    names = [column_name(table, name, "totals") for name in columns]
    if not names:
        raise ValueError("totals: by is a column or a list of columns")
    if top is not None and (not isinstance(top, int) or top < 1):
        raise ValueError(f"totals: top is how many groups to keep, 1 or more, not {top!r}")
    how = _how(how, value, "totals")
    values = _values(table, value, how, "totals")
    keys = [keys_of(table[name]) for name in names]
    result = _aggregate(values.groupby(keys if len(keys) > 1 else keys[0], sort=True), how)
    result.index.names = names
    unnamed = [MISSING in (key if isinstance(key, tuple) else (key,)) for key in result.index]
    result = result.iloc[
        sorted(range(len(result)), key=unnamed.__getitem__)
    ]  # (missing) last among equal values
    result = result.sort_values(ascending=False, kind="stable", na_position="last")
    return result if top is None else result.head(top)


def period_totals(table: pd.DataFrame, date: str, value: str | None, every: str, how: str) -> pd.Series:
    if every not in EVERY:
        raise ValueError(f"per_period: every is one of {', '.join(EVERY)}, not {every!r}")
    name = column_name(table, date, "per_period")
    how = _how(how, value, "per_period")
    values = _values(table, value, how, "per_period")
    dates = dates_of(table, name, "per_period")
    _say_undated("per_period", name, dates)
    dated = dates.notna().to_numpy()  # by position: row labels may repeat
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


def _how(how: str, value: str | None, what: str) -> str:
    if how not in HOWS:
        raise ValueError(f"{what}: how is one of {', '.join(HOWS)}, not {how!r}")
    if value is None and how not in ("sum", "count"):
        raise ValueError(f"{what}: how={how!r} needs value='...', a column; without one, rows are counted")
    return how if value is not None else "count"


def _values(table: pd.DataFrame, value: str | None, how: str, what: str) -> pd.Series:
    if value is None:
        return pd.Series(1, index=table.index, name="rows")
    name = column_name(table, value, what)
    series = table[name]
    if how == "nunique":
        return keys_of(series).where(series.notna())
    if how == "count" or (pd.api.types.is_datetime64_any_dtype(series) and how in ("min", "max")):
        return series
    return numbers_of(table, name, what)


def _aggregate(groups: Any, how: str) -> pd.Series:
    # The sum of a group without values is missing, not 0.
    result = groups.sum(min_count=1) if how == "sum" else getattr(groups, how)()
    if how in ("sum", "mean", "median") and pd.api.types.is_float_dtype(result):
        # Show 0.1 + 0.2 as 0.3.
        result = result.map(lambda value: value if pd.isna(value) else float(f"{value:.{_DIGITS}g}"))
    return result


def _label(period: pd.Period, every: str) -> str:
    if every == "week":
        year, week, _ = period.start_time.isocalendar()
        return f"{year}-W{week:02}"
    if every == "hour":
        return period.strftime("%Y-%m-%d %H:00")
    return f"{period.year}-Q{period.quarter}" if every == "quarter" else str(period)
