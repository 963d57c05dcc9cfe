"""Reads a CSV file in chunks: kinds of columns, numbers, dates, and unreadable values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tablereader import (
    MISSING,
    TOPICS,
    Body,
    NotText,
    OpenTable,
    alike,
    clean,
    convert,
    converted,
    examine,
    month,
    number,
    stamp,
)

from skills.file import _script as script
from skills.file._script import CommandError

CHUNK_ROWS = 50_000
SAMPLE_ROWS = 5_000
"""Rows that decide kind and form of a column."""
MAX_GROUPS = 100_000
_NOTED = ("converted", "stays text", "unclear")
EXAMPLES = 5
FREQUENCIES = {"day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}
AGGREGATES = ("sum", "mean", "count", "min", "max")


def names(text: str) -> list[str]:
    """An argparse type: column names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


class Parser(script.Parser):
    """An argument parser with the options every script has."""

    def __init__(self, description: str | None) -> None:
        super().__init__(description)
        self.add_argument("file", help="CSV file; how it is written is found out")
        about = "only rows whose COLUMN is exactly VALUE; may be repeated"
        self.add_argument("--where", action="append", default=[], metavar="COLUMN=VALUE", help=about)


class Table:
    """One CSV file, read once, with `CHUNK_ROWS` rows in memory at a time.

    `where` ("COLUMN=VALUE") selects rows.
    """

    def __init__(self, path: str, *, where: Sequence[str] = ()) -> None:
        self.path = path
        file = Path(path)
        try:
            opened = OpenTable(file.open("rb"))
        except NotText as error:
            raise CommandError(f"{path} is not a CSV file: {error}") from None
        self.columns = opened.names
        if not self.columns:
            raise CommandError(f"the file is empty: {path}")
        self._body = Body(opened.header)
        rows = self._body.fitting(opened.body())
        first = list(islice(rows, SAMPLE_ROWS))
        self._read = chain(first, rows)
        sample = [examine(name, [row[place] for row in first]) for place, name in enumerate(self.columns)]
        convert(sample)
        self._forms = {column.name: column for column in sample}
        self._header_notes = opened.header.notes
        self._letters = opened.foreign
        self._where = [self._condition(text) for text in where]
        self._unparsed: dict[str, Counter[str]] = {}
        self._rows = 0
        self._matching = 0

    def kind(self, column: str) -> str:
        """Return the kind of a column by its first rows: number, date or text."""
        found = self._forms[column].kind
        return found if found in ("number", "date") else "text"

    def require(self, columns: Iterable[str]) -> None:
        """Raise a CommandError with the list of columns if one of `columns` does not exist."""
        for column in columns:
            if column not in self.columns:
                raise CommandError(f"no column {column!r} in {self.path}; it has: {', '.join(self.columns)}")

    def chunks(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Yield the rows selected by `where` as text; empty cells, N/A, NA and null are missing."""
        wanted = list(dict.fromkeys([*(columns or self.columns), *(name for name, _ in self._where)]))
        self.require(wanted)
        places = [self.columns.index(name) for name in wanted]
        while rows := list(islice(self._read, CHUNK_ROWS)):
            self._rows += len(rows)
            cells = {
                name: _cleaned([row[place] for row in rows])
                for name, place in zip(wanted, places, strict=True)
            }
            chunk = pd.DataFrame(cells)
            for name, value in self._where:
                chunk = chunk[chunk[name] == value]
            self._matching += len(chunk)
            if len(chunk):
                yield chunk if columns is None else chunk[list(dict.fromkeys(columns))]

    def numbers(self, chunk: pd.DataFrame, column: str) -> pd.Series:
        """Return the column as floats; other values that are not missing count as unparsed."""
        form = self._forms[column]
        text = chunk[column]
        values = pd.Series(np.nan, index=text.index)
        if form.mark != ",":  # most numbers, read faster
            values = pd.to_numeric(text, errors="coerce").astype(float)
            values = values.where(np.isfinite(values))
        rest = text[values.isna() & text.notna()]

        def read(value: str) -> float | None:
            found = number(value, attached=bool(form.unit))
            if found is None:
                return None
            size = found.comma if form.mark == "," else found.point
            if form.unit and found.sign:
                return converted(size, found.sign, form.unit) if alike([found.sign, form.unit]) else None
            return size if not form.sign or found.sign in ("", form.sign) else None  # $ and € cannot be added

        values = values.fillna(_each(rest, read).astype(float))
        self._note(column, text[values.isna()])
        return values

    def dates(self, chunk: pd.DataFrame, column: str) -> pd.Series:
        """Return the column as times without zone; other values that are not missing count as unparsed."""
        order = self._forms[column].order

        def read(value: str) -> Any:
            found = stamp(value, compact=True)
            return found.when(order) if found else month(value)

        values = pd.to_datetime(_each(chunk[column], read))
        self._note(column, chunk[column][values.isna()])
        return values

    def report(self) -> dict[str, Any]:
        """Return the counts and notes that begin the answer of each script."""
        report: dict[str, Any] = {"file": self.path, "rows": self._rows}
        if self._where:
            report["rows_matching_where"] = self._matching
        if self._body.left_out:
            report["skipped_lines"] = self._body.left_out
        notes = [*self._header_notes, *self._body.notes()]
        if self._letters:
            notes.append(f"letters: {self._letters} bytes at the beginning not in UTF-8, read as Latin")
        for form in self._forms.values():
            notes += [f"{TOPICS[topic]}: {note}" for topic, note in form.notes.items() if topic in _NOTED]
        if notes:
            report["notes"] = notes
        report["unparsed"] = {
            column: {"count": seen.total(), "examples": list(seen)[:EXAMPLES]}
            for column, seen in self._unparsed.items()
        }
        return report

    def _note(self, column: str, text: pd.Series) -> None:
        seen = self._unparsed.setdefault(column, Counter())
        for value, count in text.dropna().value_counts().items():
            # At most 1,000 different values are kept.
            seen[str(value) if len(seen) < 1_000 or value in seen else "…"] += int(count)
        if not seen:
            del self._unparsed[column]

    def _condition(self, text: str) -> tuple[str, str]:
        name, separator, value = text.partition("=")
        if not separator:
            raise CommandError(f"--where needs COLUMN=VALUE, not {text!r}")
        self.require([name])
        return name, value


def _cleaned(cells: list[str]) -> pd.Series:
    """Return cells without extra spaces; texts for "no value" become missing."""
    codes, different = pd.factorize(np.array(cells, dtype=object))
    texts = [None if (text := clean(cell)).lower() in MISSING else text for cell in different]
    return pd.Series(np.array([*texts, None], dtype=object)[codes], dtype=object)


def _each(text: pd.Series, read: Callable[[str], Any]) -> pd.Series:
    """Read each different value once."""
    found = {value: read(value) for value in text.dropna().unique()}
    return pd.Series([found.get(value) for value in text], index=text.index, dtype=object)


class Groups:
    """Rows, count, sum, min and max of numbers per group, added up chunk by chunk."""

    def __init__(self) -> None:
        self._frame: pd.DataFrame | None = None

    def add(self, keys: list[pd.Series], values: pd.Series) -> None:
        """Add `values` to the groups of `keys`; a missing key is its own group.

        Raises:
            CommandError: over 100,000 groups.
        """
        grouped = values.groupby(keys, dropna=False)
        part = grouped.agg(["size", "count", "sum", "min", "max"]).rename(columns={"size": "rows"})
        if self._frame is not None:
            joined = pd.concat([self._frame, part])
            again = joined.groupby(level=list(range(joined.index.nlevels)), dropna=False)
            part = again.agg({"rows": "sum", "count": "sum", "sum": "sum", "min": "min", "max": "max"})
        if len(part) > MAX_GROUPS:
            raise CommandError(f"over {MAX_GROUPS:,} groups; group by columns with fewer values")
        self._frame = part

    @property
    def empty(self) -> bool:
        """Whether no rows were added."""
        return self._frame is None

    def frame(self) -> pd.DataFrame:
        """Return one row for each group, sorted by key: rows, count, sum, min, max, mean."""
        if self._frame is None:
            raise CommandError("no rows to aggregate")
        frame = self._frame.sort_index()
        # The sum of a group without values is missing, not 0.
        return frame.assign(sum=frame["sum"].where(frame["count"] > 0), mean=frame["sum"] / frame["count"])


class Sample:
    """A random sample of at most `size` rows."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._random = np.random.default_rng(0)  # the same file gives the same sample
        self._parts = pd.DataFrame()
        self.seen = 0

    def add(self, frame: pd.DataFrame) -> None:
        """Add the rows of `frame` to the sample."""
        self.seen += len(frame)
        keyed = frame.assign(__key=self._random.random(len(frame)))
        self._parts = keyed if self._parts.empty else pd.concat([self._parts, keyed], ignore_index=True)
        if len(self._parts) > self._size:
            self._parts = self._parts.nsmallest(self._size, "__key")

    def frame(self) -> pd.DataFrame:
        """Return the sample."""
        return self._parts.drop(columns="__key", errors="ignore")


def buckets(table: Table, date: str, frequency: str, column: str | None) -> pd.DataFrame:
    """Return `Groups.frame` per day, week, month, quarter or year, without gaps.

    Raises:
        CommandError: no date could be read, or over 100,000 buckets.
    """
    groups = Groups()
    for chunk in table.chunks([date, column] if column else [date]):
        times = table.dates(chunk, date)
        values = table.numbers(chunk, column) if column else pd.Series(1.0, index=chunk.index)
        dated = times.notna()
        if not dated.any():
            continue
        groups.add([times[dated].dt.to_period(FREQUENCIES[frequency])], values[dated])
    if groups.empty:
        raise CommandError(f"no date could be read in column {date!r}")
    frame = groups.frame()
    if frame.index[-1].ordinal - frame.index[0].ordinal >= MAX_GROUPS:
        raise CommandError(f"over {MAX_GROUPS:,} {frequency} buckets; choose a longer one")
    frame = frame.reindex(pd.period_range(frame.index[0], frame.index[-1], freq=FREQUENCIES[frequency]))
    return frame.fillna({"rows": 0, "count": 0}).astype({"rows": int, "count": int})
