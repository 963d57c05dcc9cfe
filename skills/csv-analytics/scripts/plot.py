"""Draw a CSV file as a PNG: line or bar (aggregated by x), hist, scatter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pandas as pd
from table import AGGREGATES, FREQUENCIES, Groups, Parser, Sample, Table, buckets

from skills.file._script import CommandError, positive, run

HIST_VALUES = 1_000_000
SCATTER_POINTS = 20_000
LINE_POINTS = 10_000
MISSING = "(missing)"


def aggregated(table: Table, args: Any) -> pd.Series:
    """Return a value for each bucket (with --freq) or each value of x."""
    agg = args.agg if args.y else "rows"
    if args.freq:
        series = buckets(table, args.x, args.freq, args.y)[agg]
        return series.set_axis(series.index.astype(str))
    groups = Groups()
    for chunk in table.chunks([args.x, *([args.y] if args.y else [])]):
        values = table.numbers(chunk, args.y) if args.y else pd.Series(1.0, index=chunk.index)
        groups.add([chunk[args.x]], values)
    return groups.frame()[agg].rename(index=lambda key: MISSING if pd.isna(key) else str(key))


def points(table: Table, columns: list[str], size: int) -> Sample:
    """Return numbers of `columns`, from rows with a number in each."""
    sample = Sample(size)
    for chunk in table.chunks(columns):
        sample.add(pd.DataFrame({name: table.numbers(chunk, name) for name in columns}).dropna())
    if not sample.seen:
        raise CommandError(f"no row has numbers in {' and '.join(columns)}")
    return sample


def draw(axes: Any, table: Table, args: Any) -> dict[str, Any]:
    """Draw into `axes`; return the number of points and of drawn points."""
    if args.kind == "hist":
        sample = points(table, [args.x], HIST_VALUES)
        axes.hist(sample.frame()[args.x], bins=30)
        axes.set_ylabel("rows")
        return {"points": sample.seen, "drawn": len(sample.frame())}
    if args.kind == "scatter":
        sample = points(table, list(dict.fromkeys([args.x, args.y])), SCATTER_POINTS)
        frame = sample.frame()
        axes.scatter(frame[args.x], frame[args.y], s=10, alpha=0.5)
        axes.set_ylabel(args.y)
        return {"points": sample.seen, "drawn": len(frame)}
    series = aggregated(table, args)
    axes.set_ylabel(f"{args.agg} of {args.y}" if args.y else "rows")
    if args.kind == "bar":
        total = len(series)
        if not args.freq:
            series = series.sort_values(ascending=False, kind="stable")
        series = series.head(args.limit)
        axes.bar(series.index, series.to_numpy())
    else:
        series = series.drop(MISSING, errors="ignore")  # (missing) has no place on the axis
        total = len(series)
        if total > LINE_POINTS:
            raise CommandError(f"{total:,} points make no line; use --freq for dates, or scatter")
        numbers = pd.to_numeric(pd.Series(series.index), errors="coerce")
        if not args.freq and numbers.notna().all():
            series = series.set_axis(pd.Index(numbers)).sort_index()
        axes.plot(series.index, series.to_numpy(), marker="o" if total <= 60 else None)
    if series.index.dtype == object:
        _label(axes, series.index)
    return {"points": total, "drawn": len(series)}


def _label(axes: Any, labels: pd.Index) -> None:
    step = max(1, len(labels) // 24)  # more labels would overlap
    axes.set_xticks(range(0, len(labels), step), labels[::step], rotation=45, ha="right")


def main() -> dict[str, Any]:
    parser = Parser(__doc__)
    parser.add_argument("--kind", choices=["line", "bar", "hist", "scatter"], required=True)
    parser.add_argument("--x", required=True, help="column: dates or groups; numbers for hist and scatter")
    parser.add_argument("--y", help="column of numbers (line, bar: default counts rows; scatter: required)")
    parser.add_argument("--agg", choices=AGGREGATES, default="sum", help="line, bar: default sum")
    parser.add_argument(
        "--freq", choices=list(FREQUENCIES), help="line, bar: x is a date; one point a bucket"
    )
    parser.add_argument("--limit", type=positive, default=20, help="bar: number of bars (default 20)")
    parser.add_argument("--title", help="default: made from the columns")
    parser.add_argument("--out", help="PNG file (default /results/<file>-<kind>-<x>.png)")
    args = parser.parse_args()
    if args.kind == "scatter" and not args.y:
        parser.error("scatter needs --y")
    table = Table(args.file, where=args.where)
    table.require([args.x, *([args.y] if args.y else [])])
    stem = "".join(char if char.isalnum() else "-" for char in f"{Path(args.file).stem}-{args.kind}-{args.x}")
    out = Path(args.out or f"/results/{stem}.png")
    matplotlib.use("Agg")
    matplotlib.rcParams["text.parse_math"] = False  # a "$" in a name is a dollar, not a formula
    figure, axes = plt.subplots(figsize=(10, 6))
    drawn = draw(axes, table, args)
    axes.set_xlabel(args.x)
    axes.set_title(args.title or " by ".join(name for name in (args.y, args.x) if name))
    figure.tight_layout()
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, format="png", dpi=120)
    return {**table.report(), **drawn, "out": str(out)}


if __name__ == "__main__":
    run(main)
