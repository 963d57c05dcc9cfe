"""Aggregate a CSV file per day, week, month, quarter or year of a date column, empty buckets included."""

from __future__ import annotations

from typing import Any

from table import AGGREGATES, FREQUENCIES, Parser, Table, buckets

from skills.file._script import run


def main() -> dict[str, Any]:
    parser = Parser(__doc__)
    parser.add_argument("--date", required=True, help="the column of dates; its format is detected")
    parser.add_argument("--freq", choices=list(FREQUENCIES), default="month", help="default month")
    parser.add_argument("--column", help="the column of numbers (default: only count rows)")
    parser.add_argument("--agg", choices=AGGREGATES, default="sum", help="default sum")
    args = parser.parse_args()
    table = Table(args.file, where=args.where)
    frame = buckets(table, args.date, args.freq, args.column)
    columns = ["rows", *([args.agg] if args.column else [])]
    rows = [
        {"bucket": str(period), **figures}
        for period, figures in zip(frame.index, frame[columns].to_dict("records"), strict=True)
    ]
    return {**table.report(), "result": rows}


if __name__ == "__main__":
    run(main)
