"""Select rows of a CSV file by a column of numbers: above or below a threshold, the top and bottom n."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from command import CommandError, Parser, names, positive, run
from table import Table

NUMBER = "\0number"  # no column of a CSV file has this name


def rows_of(frame: pd.DataFrame, columns: list[str], compared: str) -> list[dict[str, Any]]:
    """The compared column as a number, other cells as the file has them."""
    return [
        {name: row[NUMBER if name == compared else name] for name in columns}
        for row in frame.to_dict("records")
    ]


def main() -> dict[str, Any]:
    parser = Parser(__doc__)
    parser.add_argument("--column", required=True, help="the column of numbers to compare")
    parser.add_argument("--above", type=float, metavar="X", help="only rows with column > X")
    parser.add_argument("--below", type=float, metavar="X", help="only rows with column < X")
    parser.add_argument("--top", type=positive, metavar="N", help="the N largest, largest first")
    parser.add_argument("--bottom", type=positive, metavar="N", help="the N smallest, smallest first")
    parser.add_argument("--columns", type=names, help="columns to show, separated by commas (default all)")
    parser.add_argument("--limit", type=positive, default=50, help="rows to print (default 50)")
    parser.add_argument("--out", help="also write every matching row to this CSV file")
    args = parser.parse_args()
    if (args.above, args.below, args.top, args.bottom) == (None, None, None, None):
        parser.error("give one of --above, --below, --top, --bottom")

    table = Table(args.file, strip=args.strip, decimal=args.decimal, where=args.where)
    shown = args.columns or table.columns
    table.require([args.column, *shown])
    if args.out and Path(args.out).resolve() == Path(args.file).resolve():
        raise CommandError("--out is the file that is read")

    matching = 0
    first = top = bottom = None
    if args.out:
        pd.DataFrame(columns=shown).to_csv(args.out, index=False)
    for chunk in table.chunks([args.column, *shown]):
        numbers = table.numbers(chunk, args.column)
        keep = numbers.notna()
        if args.above is not None:
            keep &= numbers > args.above
        if args.below is not None:
            keep &= numbers < args.below
        found = chunk.assign(**{NUMBER: numbers})[keep]
        if args.out:
            found[shown].to_csv(args.out, mode="a", header=False, index=False)
        matching += len(found)
        first = pd.concat([first, found.head(args.limit)]).head(args.limit)
        if args.top:
            top = pd.concat([top, found]).nlargest(args.top, NUMBER)
        if args.bottom:
            bottom = pd.concat([bottom, found]).nsmallest(args.bottom, NUMBER)

    result: dict[str, Any] = {**table.report(), "matching": matching}
    if top is not None:
        result["top"] = rows_of(top, shown, args.column)
    if bottom is not None:
        result["bottom"] = rows_of(bottom, shown, args.column)
    if not args.top and not args.bottom:
        result["rows_shown"] = [] if first is None else rows_of(first, shown, args.column)
    if args.out:
        result["out"] = args.out
    return result


if __name__ == "__main__":
    run(main)
