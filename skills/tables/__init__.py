"""Tables in one call each: read any CSV, JSON or Excel file clean, then rows of a period, totals, plots.

from skills.tables import in_period, latest, load, merge, per_period, plot, totals, where

table = load("/data/sales.csv")                         # prints what it found; returns a pandas DataFrame
spring = in_period(table, "order_date", "2024-Q2")      # rows of a period
large = where(spring, "units > 10 and region == 'West'")  # rows that meet a condition
print(totals(spring, "region", "revenue"))              # sum of revenue by region, largest first
monthly = per_period(table, "order_date", "revenue")    # sum of revenue by month, in order
plot(monthly, "revenue.png", kind="line")               # /results/revenue.png
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from datetime import date

    import pandas

__all__ = ["in_period", "latest", "load", "merge", "per_period", "plot", "totals", "where"]

How = Literal["sum", "mean", "median", "min", "max", "count", "nunique"]

# pandas takes half a second to import, matplotlib more: neither before it is needed.


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


def latest(table: pandas.DataFrame, by: str | Sequence[str], column: str) -> pandas.DataFrame:
    """Return one row for each value of `by`, a column or a list of columns: the one whose `column`, a date or
    a number, is greatest; of several the last in the file.

    Spellings that differ only in capitals or spaces are one. Rows without a date are left out, and counted;
    how many rows are left is printed.

    Example:
        valid = latest(table, "item", "updated")

    Raises:
        KeyError: there is no such column; the message lists them.
        ValueError: `column` has neither dates nor numbers.
    """
    from skills.tables._groups import newest_rows

    return newest_rows(table, by, column)


def merge(
    left: pandas.DataFrame,
    right: pandas.DataFrame,
    on: str | Sequence[str] | None = None,
    *,
    left_on: str | Sequence[str] | None = None,
    right_on: str | Sequence[str] | None = None,
    how: Literal["inner", "left", "right", "outer"] = "inner",
) -> pandas.DataFrame:
    """Join two tables as `pandas.merge` does, by columns of the same name unless others are given, and print
    how many rows of the first found no partner, and which.

    Example:
        table = merge(table, load("/data/customers.csv"), left_on="customer", right_on="id")

    Raises:
        KeyError: there is no such column; the message lists them.
        ValueError: the columns do not go together: as many of each, and of the same kind.
    """
    from skills.tables._merge import join

    return join(left, right, on, left_on=left_on, right_on=right_on, how=how)


def where(
    table: pandas.DataFrame, condition: str | pandas.Series | Callable[..., Any], *value: Any
) -> pandas.DataFrame:
    """Return the rows that meet a condition, and print how many they are: where(t, "kg / litres > 2 and
    town == 'Oslo'").

    In a text stand columns as they are called, or between back-ticks, numbers, texts and dates between
    quotation marks, + - * / %, comparisons, in, and, or, not. Of a column of lists, == and in ask for a value
    in the list. Also where(t, "town", "Oslo"), where(t, "kg", ">", 2), where(t, "kg", function of a value)
    and where(t, t["kg"] > 2). Without rows, what the columns hold is printed.

    Example:
        late = where(table, "days > 14 and status != 'closed'")

    Raises:
        KeyError: there is no such column; the message lists them.
        ValueError: the condition cannot be read.
    """
    from skills.tables._rows import rows_where

    return rows_where(table, condition, value)


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
    that is numbers is read as `load` reads it, where at least half of it can be. `value` may be a
    calculation with columns, such as "pieces * price".

    Example:
        print(totals(table, "region", "revenue", top=5))
        print(totals(table, ["region", "status"]))

    Raises:
        KeyError: there is no such column; the message lists them.
        ValueError: `value` is no column of numbers, or `how` or `top` is none.
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
        ValueError: a column has no dates or no numbers, or `every` or `how` is none.
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
    markers: bool = False,
    legend: bool | None = None,
    **others: object,
) -> str:
    """Draw a Series as bars or a line into /results/<name>, a .png or .svg, and return and print the path.

    `size` is width and height, in inches or, over 50, in pixels. Each column of a DataFrame is a line or set
    of bars of its own, and a legend names them. The index is what stands along the x axis, in its order;
    labels of the axes are the names of index and values unless given. `markers` puts a dot at each value of
    a line.

    Example:
        plot(totals(table, "region", "revenue"), "regions.png", title="Revenue by region", ylabel="EUR")

    Raises:
        TypeError: there is no such option; the message lists those there are.
        ValueError: there are no numbers, the name is of another kind or leads out of /results.
    """
    from skills.tables._plot import draw, refuse

    refuse(others)
    options = {"title": title, "xlabel": xlabel, "ylabel": ylabel, "color": color, "size": size}
    return draw(series, name, kind, markers=markers, legend=legend, **options)


_SAME = {
    **dict.fromkeys(("filter", "filter_rows", "query", "rows_where", "select"), "where"),
    **dict.fromkeys(("read", "read_csv", "read_file", "read_json", "read_table", "load_table"), "load"),
    **dict.fromkeys(("group_by", "groupby", "group_totals", "sum_by", "total", "totals_by"), "totals"),
    **dict.fromkeys(("by_month", "by_period", "period_totals", "totals_per_period"), "per_period"),
    **dict.fromkeys(("between", "filter_period", "in_range"), "in_period"),
    **dict.fromkeys(("join", "merge_tables"), "merge"),
    **dict.fromkeys(("newest", "last_of_each"), "latest"),
    **dict.fromkeys(("bar_chart", "bar_plot", "chart", "line_plot", "plot_bar", "plot_line"), "plot"),
}
"""Names by which the functions are called as well, by those who know them from elsewhere."""


def __getattr__(name: str) -> Any:
    """One of those names; else what pandas has of that name."""
    if name in _SAME:
        return globals()[_SAME[name]]
    if not name.startswith("_"):
        import pandas

        if name == "pd":
            return pandas
        if hasattr(pandas, name):
            return getattr(pandas, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
