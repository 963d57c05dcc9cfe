"""Tables in one call each: read any CSV, JSON or Excel file clean, then rows of a period, totals, plots.

from skills.tables import in_period, load, per_period, plot, totals

table = load("/data/sales.csv")                         # prints what it found; returns a pandas DataFrame
spring = in_period(table, "order_date", "2024-Q2")      # rows of a period
print(totals(spring, "region", "revenue"))              # sum of revenue by region, largest first
monthly = per_period(table, "order_date", "revenue")    # sum of revenue by month, in order
plot(monthly, "revenue.png", kind="line")               # /results/revenue.png
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from datetime import date

    import pandas

__all__ = ["in_period", "load", "per_period", "plot", "totals"]

How = Literal["sum", "mean", "median", "min", "max", "count", "nunique"]

# Importing pandas takes half a second, and matplotlib more, so the functions import their modules.


def load(path: str | os.PathLike[str] | list[dict[str, Any]], rows: str | None = None) -> pandas.DataFrame:
    """Read a CSV, TSV, JSON, JSON lines, log (also .gz), .pdf or .xlsx file clean; print what is odd in it.

    Separator, encoding and decimal comma are found out. Text such as "$1,234.50", "1.234,50 €", "12 %", "5
    kg" or "(5)" becomes numbers, "850 g" beside "1.4 kg" 0.85; dates in any common form become datetime64,
    times with an offset UTC without one; true and false become booleans; spaces around text are gone. Codes
    with leading zeros or over 15 digits stay text. Empty, N/A, NA, null, nan and none become missing. A
    column is converted when nine tenths of its values can be read; the others become missing and are
    printed. Where a date does not tell day from month, the other values decide, else the day comes first,
    and that is printed. Nested objects of JSON become columns such as `customer.country`; a list inside a
    record stays one. Every row is kept but those that are printed. A list of objects may be given instead of
    a path. A pattern reads all files that it fits as one table, with the column `file`. At most 50 MB.

    Example:
        table = load("/data/sales.csv")
        months = load("/data/2024-*.csv")

    Raises:
        FileNotFoundError: there is no such file; the message names what the folder has.
        ValueError: it is of another kind, damaged or empty, or a JSON file holds several lists.
    """
    from skills.tables._load import load_path, load_records

    return load_records(path, rows) if isinstance(path, list) else load_path(path, rows)


def in_period(
    table: pandas.DataFrame, column: str, period: str | int | date | Sequence[str]
) -> pandas.DataFrame:
    """Return the rows whose date lies in `period`: "2024", "2024-03", "2024-Q2", "2024-W05", "2024-03-05" or
    "2024-01-10 to 2024-02-20", both ends included; also "March 2024" and "2024-H1".

    A column of text is read as `load` reads dates, a month such as 2024-03 too. Rows without a date are left
    out, and counted in print. Without rows the table is empty, and the range of the column is printed.

    Example:
        march = in_period(table, "order_date", "2024-03")

    Raises:
        KeyError: there is no such column; the message lists them.
        ValueError: the period cannot be read, or the column has no dates.
    """
    from skills.tables._groups import rows_in

    return rows_in(table, column, period)


def totals(
    table: pandas.DataFrame,
    by: str | Sequence[str],
    value: str | None = None,
    how: How = "sum",
    top: int | None = None,
) -> pandas.Series:
    """Return the sum (or mean, median, min, max, count, nunique) of `value` by group, largest first; without
    `value` the number of rows.

    `by` is a column or a list of columns. Spellings that differ only in capitals or spaces are one group,
    under the commonest; rows without a key are the group "(missing)". `top` keeps that many groups. Text
    that is numbers is read as `load` reads it, where at least half of it can be.

    Example:
        print(totals(table, "region", "revenue", top=5))
        print(totals(table, ["region", "status"]))

    Raises:
        KeyError: there is no such column; the message lists them.
        ValueError: `value` is not a column of numbers, or `how` or `top` is invalid.
    """
    from skills.tables._groups import group_totals

    return group_totals(table, by, value, how, top)


def per_period(
    table: pandas.DataFrame,
    date: str,
    value: str | None = None,
    every: Literal["hour", "day", "week", "month", "quarter", "year"] = "month",
    how: How = "sum",
) -> pandas.Series:
    """Return the sum (or mean, ...) of `value` per hour, day, week, month, quarter or year, in order; without
    `value` the number of rows.

    The index is text: 2024-03-05 14:00, 2024-03-05, 2024-W05, 2024-03, 2024-Q2, 2024. Periods without rows
    are there: 0 for sum, count and nunique, else missing. Rows without a date are left out, and counted.

    Example:
        print(per_period(table, "order_date", "revenue", every="quarter"))

    Raises:
        KeyError: there is no such column; the message lists them.
        ValueError: a column has no dates or no numbers, or `every` or `how` is invalid.
    """
    from skills.tables._groups import period_totals

    return period_totals(table, date, value, every, how)


def plot(
    series: pandas.Series | pandas.DataFrame | Mapping[str, float],
    name: str,
    kind: Literal["bar", "line"] = "bar",
    title: str | None = None,
    *,
    xlabel: str | None = None,
    ylabel: str | None = None,
    color: str | None = None,
    size: tuple[float, float] | None = None,
) -> str:
    """Draw a Series as bars or a line into /results/<name>, a .png, .svg, .pdf or .jpg, and return and print
    the path.

    `size` is width and height, in inches or, over 50, in pixels. Each column of a DataFrame is a line or set
    of bars of its own, and a legend names them. The index is what stands along the x axis, in its order;
    labels of the axes are the names of index and values unless given.

    Example:
        plot(totals(table, "region", "revenue"), "regions.png", title="Revenue by region", ylabel="EUR")

    Raises:
        ValueError: there are no numbers, or the name leads out of /results.
    """
    from skills.tables._plot import draw

    labels = {"title": title, "xlabel": xlabel, "ylabel": ylabel}
    return draw(series, name, kind, color=color, size=size, **labels)
