"""Makes a pandas table of a file or a list of objects, and prints notes about the table."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd
from tablereader import Column, Raw, convert, counted, examine

from skills.tables._files import find, read, read_all, several
from skills.tables._records import from_objects
from skills.tables._summary import summary


def load_path(path: str | os.PathLike[str], rows: str | None) -> pd.DataFrame:
    if files := several(path):
        return _table(read_all(files, rows), f"{path}, {counted(len(files), 'file')}")
    file = find(path)
    return _table(read(file, rows), str(file))


def load_records(records: list[dict[str, Any]], rows: str | None) -> pd.DataFrame:
    if not all(isinstance(record, dict) for record in records):
        raise ValueError('load reads one file, a list of objects, or files by a pattern: load("/data/*.csv")')
    return _table(from_objects(records, "the list", rows), "the list")


def _table(raw: Raw, where: str) -> pd.DataFrame:
    raw.columns.reverse()
    columns = [examine(name, raw.columns.pop()) for name in raw.names]  # frees the cells of each column
    convert(columns)
    table = pd.DataFrame({column.name: _series(column) for column in columns})
    print(f"{where}: {counted(len(table), 'row')}, {counted(len(columns), 'column')}")
    comparable = table.apply(lambda series: series.map(repr) if series.dtype == object else series)
    repeats = int(comparable.duplicated().sum()) if len(table) else 0
    for line in [*raw.notes, *summary(columns, len(table), repeats)]:
        print(line)
    return table


def _series(column: Column) -> pd.Series:
    return pd.Series(_array(column)).take(column.places).reset_index(drop=True)


def _array(column: Column) -> Any:
    values = column.values
    if column.kind == "date":
        return pd.to_datetime(pd.Series(values, dtype=object))
    if column.kind == "number":
        if all(isinstance(value, int) for value in values):
            return np.array(values, dtype=np.int64)
        return np.array([np.nan if value is None else value for value in values], dtype=float)
    if column.kind == "true/false":
        return pd.array(values, dtype="boolean") if None in values else np.array(values, dtype=bool)
    if column.kind == "text":
        return pd.array(values, dtype="str")
    if column.kind == "empty":
        return np.full(len(values), np.nan)
    return pd.Series(values, dtype=object)
