"""Aggregate a column of a CSV file per group: sum, mean, count, min, max."""

from __future__ import annotations

from typing import Any

import pandas as pd
from table import AGGREGATES, Groups, Parser, Table, names

from skills.file._script import CommandError, positive, run


def main() -> dict[str, Any]:
    parser = Parser(__doc__)
    parser.add_argument("--by", type=names, required=True, help="columns to group by, separated by commas")
    parser.add_argument("--column", help="the column of numbers (default: only count rows)")
    parser.add_argument("--agg", type=names, help=f"any of {','.join(AGGREGATES)} (default sum,mean,count)")
    parser.add_argument("--sort", choices=["key", "rows", *AGGREGATES], help="default: the first of --agg")
    parser.add_argument("--ascending", action="store_true", help="smallest first")
    parser.add_argument("--limit", type=positive, default=100, help="groups to print (default 100)")
    args = parser.parse_args()
    aggregates = (args.agg or ["sum", "mean", "count"]) if args.column else []
    for name in aggregates:
        if name not in AGGREGATES:
            raise CommandError(f"no aggregate {name!r}; there are {', '.join(AGGREGATES)}")
    if args.agg and not args.column:
        raise CommandError("--agg needs --column")

    table = Table(args.file, where=args.where)
    groups = Groups()
    for chunk in table.chunks([*args.by, *([args.column] if args.column else [])]):
        values = table.numbers(chunk, args.column) if args.column else pd.Series(1.0, index=chunk.index)
        groups.add([chunk[name] for name in args.by], values)
    frame = groups.frame()
    sort = args.sort or (aggregates[0] if aggregates else "rows")
    if sort != "key":
        frame = frame.sort_values(sort, ascending=args.ascending, kind="stable")
    rows = [
        dict(zip(args.by, key if isinstance(key, tuple) else (key,), strict=True))
        | {name: figures[name] for name in ["rows", *aggregates]}
        for key, figures in zip(frame.index[: args.limit], frame.to_dict("records"), strict=False)
    ]
    return {**table.report(), "groups": len(frame), "result": rows}


if __name__ == "__main__":
    run(main)
