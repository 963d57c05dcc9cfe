"""Describe a CSV file: rows, and for every column its kind, missing and odd values, and figures."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from command import Parser, run
from table import DATE_FORMATS, Sample, Table, parse_dates

MAX_DISTINCT = 20_000
MAX_HASHES = 5_000_000
QUANTILE_SAMPLE = 200_000
KIND_SHARE = 0.8  # a column is of a kind when this share of its first values is


class NumberColumn:
    """Figures of a column of numbers; quantiles are exact up to 200,000 values, else of a sample."""

    def __init__(self) -> None:
        self.count, self.mean, self.squares = 0, 0.0, 0.0
        self.low, self.high, self.total = np.inf, -np.inf, 0.0
        self.sample = Sample(QUANTILE_SAMPLE)

    def add(self, table: Table, chunk: pd.DataFrame, name: str) -> None:
        values = table.numbers(chunk, name).dropna()
        if values.empty:
            return
        # Chan's update: a sum of squares would lose the spread of large numbers.
        count, mean = len(values), values.mean()
        shift, all_count = mean - self.mean, self.count + count
        self.squares += ((values - mean) ** 2).sum() + shift**2 * self.count * count / all_count
        self.mean += shift * count / all_count
        self.count, self.total = all_count, self.total + values.sum()
        self.low, self.high = min(self.low, values.min()), max(self.high, values.max())
        self.sample.add(values.to_frame("value"))

    def figures(self) -> dict[str, Any]:
        if not self.count:
            return {}
        quantiles = self.sample.frame()["value"].quantile([0.25, 0.5, 0.75]).tolist()
        return {
            "min": self.low,
            "max": self.high,
            "sum": self.total,
            "mean": self.mean,
            "std": np.sqrt(self.squares / (self.count - 1)) if self.count > 1 else None,
            **dict(zip(("q25", "median", "q75"), quantiles, strict=True)),
            **({"quantiles": "of a sample"} if self.sample.seen > QUANTILE_SAMPLE else {}),
        }


class DateColumn:
    """First and last of a column of dates."""

    def __init__(self) -> None:
        self.first: Any = pd.NaT
        self.last: Any = pd.NaT

    def add(self, table: Table, chunk: pd.DataFrame, name: str) -> None:
        values = table.dates(chunk, name)
        self.first = pd.Series([self.first, values.min()]).min()
        self.last = pd.Series([self.last, values.max()]).max()

    def figures(self) -> dict[str, Any]:
        return {"first": self.first, "last": self.last}


class TextColumn:
    """Most frequent values; over 20,000 distinct ones only those seen first are counted."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.more = False

    def add(self, _: Table, chunk: pd.DataFrame, name: str) -> None:
        for value, count in chunk[name].value_counts().items():
            if value in self.seen or len(self.seen) < MAX_DISTINCT:
                self.seen[value] += int(count)
            else:
                self.more = True

    def figures(self) -> dict[str, Any]:
        most = dict(self.seen.most_common(5))
        return {"distinct_at_least" if self.more else "distinct": len(self.seen), "most_frequent": most}


KINDS = {"number": NumberColumn, "date": DateColumn, "text": TextColumn}


def kind_of(table: Table, text: pd.Series) -> str:
    """number, date or text, by the values of the first chunk."""
    text = text.dropna()
    if text.empty:
        return "text"
    if table.parse_numbers(text).notna().mean() >= KIND_SHARE:
        return "number"
    head = text.head(1_000)
    dated = any(parse_dates(head, form).notna().mean() >= KIND_SHARE for form in DATE_FORMATS)
    return "date" if dated else "text"


def main() -> dict[str, Any]:
    args = Parser(__doc__).parse_args()
    table = Table(args.file, strip=args.strip, decimal=args.decimal, where=args.where)
    kinds: dict[str, str] = {}
    columns: dict[str, Any] = {}
    missing: Counter[str] = Counter()
    hashes: list[np.ndarray] = []
    rows = 0
    for chunk in table.chunks():
        rows += len(chunk)
        if rows <= MAX_HASHES:
            hashes.append(pd.util.hash_pandas_object(chunk, index=False).to_numpy())
        for name in table.columns:
            if name not in kinds:
                kinds[name] = kind_of(table, chunk[name])
                columns[name] = KINDS[kinds[name]]()
            columns[name].add(table, chunk, name)
            missing[name] += int(chunk[name].isna().sum())
    duplicates = rows - len(np.unique(np.concatenate(hashes))) if hashes and rows <= MAX_HASHES else None
    report = table.report()
    unparsed = report.pop("unparsed")
    return {
        **report,
        "duplicate_rows": 0 if not rows else duplicates,
        "columns": {
            name: {
                "kind": kinds.get(name, "text"),
                "missing": missing[name],
                **({"unparsed": unparsed[name]} if name in unparsed else {}),
                **(columns[name].figures() if name in columns else {}),
            }
            for name in table.columns
        },
    }


if __name__ == "__main__":
    run(main)
