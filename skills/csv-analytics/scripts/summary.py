"""Describe a CSV file: rows, and for every column its kind, missing and odd values, and figures."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from table import Parser, Sample, Table

from skills.file._script import run

MAX_DISTINCT = 20_000
MAX_HASHES = 5_000_000
SAMPLED = 200_000


class NumberColumn:
    """Figures of a column of numbers; the spread is that of a sample from 200,000 values on."""

    def __init__(self) -> None:
        self.parts: list[pd.Series] = []
        self.sample = Sample(SAMPLED)

    def add(self, table: Table, chunk: pd.DataFrame, name: str) -> None:
        values = table.numbers(chunk, name).dropna()
        if len(values):
            self.parts.append(values.agg(["count", "min", "max", "sum"]))
            self.sample.add(values.to_frame("value"))

    def figures(self) -> dict[str, Any]:
        if not self.parts:
            return {}
        parts = pd.DataFrame(self.parts)
        spread = self.sample.frame()["value"].describe()
        return {
            "min": parts["min"].min(),
            "max": parts["max"].max(),
            "sum": parts["sum"].sum(),
            "mean": parts["sum"].sum() / parts["count"].sum(),
            **{"std": spread["std"], "q25": spread["25%"], "median": spread["50%"], "q75": spread["75%"]},
            **({"spread": "of a sample"} if self.sample.seen > SAMPLED else {}),
        }


class DateColumn:
    """First and last of a column of dates."""

    def __init__(self) -> None:
        self.ends: list[Any] = []

    def add(self, table: Table, chunk: pd.DataFrame, name: str) -> None:
        values = table.dates(chunk, name)
        self.ends += [values.min(), values.max()]

    def figures(self) -> dict[str, Any]:
        ends = pd.Series(self.ends)
        return {"first": ends.min(), "last": ends.max()}


class TextColumn:
    """Most frequent values; after 20,000 distinct values no new value is counted."""

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


def main() -> dict[str, Any]:
    args = Parser(__doc__).parse_args()
    table = Table(args.file, where=args.where)
    columns: dict[str, Any] = {name: KINDS[table.kind(name)]() for name in table.columns}
    missing: Counter[str] = Counter()
    hashes = np.array([], np.uint64)
    rows = 0
    for chunk in table.chunks():
        rows += len(chunk)
        if rows <= MAX_HASHES:
            hashes = np.append(hashes, pd.util.hash_pandas_object(chunk, index=False))
        for name in table.columns:
            columns[name].add(table, chunk, name)
            missing[name] += int(chunk[name].isna().sum())
    report = table.report()
    unparsed = report.pop("unparsed")
    described = {}
    for name, column in columns.items():
        odd = {"unparsed": unparsed[name]} if name in unparsed else {}
        described[name] = {"kind": table.kind(name), "missing": missing[name], **odd, **column.figures()}
    repeats = rows - len(np.unique(hashes)) if rows <= MAX_HASHES else None
    return {**report, "duplicate_rows": repeats, "columns": described}


if __name__ == "__main__":
    run(main)
