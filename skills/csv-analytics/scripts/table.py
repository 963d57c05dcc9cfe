"""A CSV file read in chunks: what it is written in, its numbers and dates, and what could not be read."""

from __future__ import annotations

import codecs
import csv
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from command import CommandError

CHUNK_ROWS = 50_000
MAX_GROUPS = 100_000
EXAMPLES = 5
# Tried in this order; the first that reads most values wins, so day/month comes before month/day.
DATE_FORMATS = (
    "ISO8601",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d.%m.%Y",
    "%d-%m-%Y",
    "%Y/%m/%d",
    "%d %b %Y",
    "%b %d, %Y",
)
FREQUENCIES = {"day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}
AGGREGATES = ("sum", "mean", "count", "min", "max")


class Table:
    """One CSV file. Memory holds `CHUNK_ROWS` rows at a time, whatever the file's size.

    `strip` and `decimal` say how numbers are written, `where` ("COLUMN=VALUE") which rows count.
    """

    def __init__(self, path: str, *, strip: str = "", decimal: str = ".", where: Sequence[str] = ()) -> None:
        if not os.path.exists(path):
            raise CommandError(f"no such file: {path}")
        if not os.path.isfile(path):
            raise CommandError(f"not a file: {path}")
        if os.path.getsize(path) == 0:
            raise CommandError(f"the file is empty: {path}")
        self.path = path
        self.encoding = _encoding(path)
        self.delimiter = _delimiter(path, self.encoding)
        head = self._reader(nrows=1)
        if not isinstance(head.index, pd.RangeIndex):
            raise CommandError(f"the first row has more fields than the header names: {path}")
        self.columns = list(head.columns)
        self._strip = str.maketrans("", "", strip)
        self._decimal = decimal
        self._where = [self._condition(text) for text in where]
        self._date_formats: dict[str, str] = {}
        self._unparsed: dict[str, Counter[str]] = {}
        self._rows = 0
        self._matching = 0
        self._skipped_lines = 0

    def require(self, columns: Iterable[str]) -> None:
        """Raise a CommandError that lists the columns there are, unless all of `columns` exist."""
        for column in columns:
            if column not in self.columns:
                raise CommandError(f"no column {column!r} in {self.path}; it has: {', '.join(self.columns)}")

    def chunks(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """The rows that `where` lets through, as text; empty cells, N/A, NA and null are missing."""
        self.require(columns or [])
        # Every column is read: with `usecols` pandas does not notice a line that has too many fields.
        reader = self._reader(chunksize=CHUNK_ROWS)
        with reader:
            while True:
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always", pd.errors.ParserWarning)
                    chunk = next(reader, None)
                self._skipped_lines += sum(str(warning.message).count("Skipping line") for warning in caught)
                if chunk is None:
                    return
                self._rows += len(chunk)
                for name, value in self._where:
                    chunk = chunk[chunk[name].str.strip() == value]
                self._matching += len(chunk)
                if len(chunk):
                    yield chunk if columns is None else chunk[list(dict.fromkeys(columns))]

    def numbers(self, chunk: pd.DataFrame, column: str) -> pd.Series:
        """The column as floats; what is neither missing nor a finite number is counted as unparsed."""
        values = self.parse_numbers(chunk[column])
        self._note(column, chunk[column][values.isna()])
        return values

    def parse_numbers(self, text: pd.Series) -> pd.Series:
        """`text` as floats, missing where it is no finite number."""
        if self._strip:
            text = text.str.translate(self._strip)
        if self._decimal != ".":
            text = text.str.replace(self._decimal, ".", regex=False)
        values = pd.to_numeric(text, errors="coerce").astype(float)
        return values.where(np.isfinite(values))

    def dates(self, chunk: pd.DataFrame, column: str) -> pd.Series:
        """The column as times without zone; what is neither missing nor a date is counted as unparsed."""
        form = self._date_formats.get(column)
        if form is None:
            form = max(DATE_FORMATS, key=lambda form: parse_dates(chunk[column], form).notna().sum())
            self._date_formats[column] = form
        values = parse_dates(chunk[column], form)
        self._note(column, chunk[column][values.isna()])
        return values

    def report(self) -> dict[str, Any]:
        """What was read and what could not be: the head of every script's answer."""
        report: dict[str, Any] = {"file": self.path, "rows": self._rows}
        if self._where:
            report["rows_matching_where"] = self._matching
        if self.encoding != "utf-8":
            report["encoding"] = self.encoding
        if self._skipped_lines:
            report["skipped_lines"] = self._skipped_lines
        if self._date_formats:
            report["date_format"] = self._date_formats
        report["unparsed"] = {
            column: {"count": seen.total(), "examples": list(seen)[:EXAMPLES]}
            for column, seen in self._unparsed.items()
        }
        return report

    def _note(self, column: str, text: pd.Series) -> None:
        seen = self._unparsed.setdefault(column, Counter())
        for value, count in text.dropna().value_counts().items():
            # Bounded: past 1,000 different odd values only the number matters.
            seen[str(value) if len(seen) < 1_000 or value in seen else "…"] += int(count)
        if not seen:
            del self._unparsed[column]

    def _condition(self, text: str) -> tuple[str, str]:
        name, separator, value = text.partition("=")
        if not separator:
            raise CommandError(f"--where needs COLUMN=VALUE, not {text!r}")
        self.require([name])
        return name, value

    def _reader(self, **options: Any) -> Any:
        try:
            return pd.read_csv(
                self.path,
                sep=self.delimiter,
                encoding=self.encoding,
                dtype=str,
                on_bad_lines="warn",
                skipinitialspace=True,
                **options,
            )
        except pd.errors.EmptyDataError as error:
            raise CommandError(f"the file has no columns: {self.path}") from error


class Groups:
    """Rows, count, sum, min and max of numbers per group, added up chunk by chunk."""

    def __init__(self) -> None:
        self._frame: pd.DataFrame | None = None

    def add(self, keys: list[pd.Series], values: pd.Series) -> None:
        """Count `values` towards the groups of `keys`; a missing key is a group of its own.

        Raises:
            CommandError: over 100,000 groups.
        """
        grouped = values.groupby(keys, dropna=False)
        part = pd.DataFrame(
            {
                "rows": grouped.size(),
                "count": grouped.count(),
                "sum": grouped.sum(min_count=1),
                "min": grouped.min(),
                "max": grouped.max(),
            }
        )
        if self._frame is not None:
            joined = pd.concat([self._frame, part])
            again = joined.groupby(level=list(range(joined.index.nlevels)), dropna=False)
            part = again.agg({"rows": "sum", "count": "sum", "min": "min", "max": "max"})
            part["sum"] = again["sum"].sum(min_count=1)
        if len(part) > MAX_GROUPS:
            raise CommandError(f"over {MAX_GROUPS:,} groups; group by columns with fewer values")
        self._frame = part

    @property
    def empty(self) -> bool:
        """Whether nothing has been added."""
        return self._frame is None

    def frame(self) -> pd.DataFrame:
        """One row a group, sorted by key: rows, count, sum, min, max, mean."""
        if self._frame is None:
            raise CommandError("no rows to aggregate")
        return self._frame.assign(mean=self._frame["sum"] / self._frame["count"]).sort_index()


class Sample:
    """At most `size` rows of numbers, every row with the same chance; all of them while they fit."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._random = np.random.default_rng(0)  # the same file gives the same sample
        self._parts = pd.DataFrame()
        self.seen = 0

    def add(self, frame: pd.DataFrame) -> None:
        """Offer the rows of `frame`."""
        self.seen += len(frame)
        keyed = frame.assign(__key=self._random.random(len(frame)))
        self._parts = keyed if self._parts.empty else pd.concat([self._parts, keyed], ignore_index=True)
        if len(self._parts) > self._size:
            self._parts = self._parts.nsmallest(self._size, "__key")

    def frame(self) -> pd.DataFrame:
        """The rows kept."""
        return self._parts.drop(columns="__key", errors="ignore")


def parse_dates(text: pd.Series, form: str) -> pd.Series:
    """`text` as times without zone, missing where it does not match `form`."""
    return pd.to_datetime(text, format=form, errors="coerce", utc=True).dt.tz_localize(None)


def buckets(table: Table, date: str, frequency: str, column: str | None) -> pd.DataFrame:
    """`Groups.frame` per day, week, month, quarter or year, without gaps.

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


def _encoding(path: str) -> str:
    with open(path, "rb") as file:
        head = file.read(4)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        file.seek(0)
        # cp1252 first: it is what spreadsheets write, and has the euro sign; latin-1 reads any byte.
        for encoding in ("utf-8", "cp1252"):
            decoder = codecs.getincrementaldecoder(encoding)()
            file.seek(0)
            try:
                while block := file.read(1 << 20):
                    decoder.decode(block)
                decoder.decode(b"", final=True)
            except UnicodeDecodeError:
                continue
            return "utf-8-sig" if head.startswith(codecs.BOM_UTF8) and encoding == "utf-8" else encoding
    return "latin-1"


def _delimiter(path: str, encoding: str) -> str:
    with open(path, encoding=encoding, newline="") as file:
        lines = [line for _, line in zip(range(50), iter(lambda: file.readline(1 << 20), ""), strict=False)]

    def score(delimiter: str) -> tuple[float, int]:
        widths = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
        if not widths or widths[0] == 1:
            return 0.0, 0
        return sum(width == widths[0] for width in widths) / len(widths), widths[0]

    return max(",;\t|", key=score)
