"""Select rows of a CSV file by a column of numbers: above or below a threshold, the top and bottom n."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from table import Parser, Table, names

from skills.file._script import CommandError, positive, run


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

    table = Table(args.file, where=args.where)
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
        if args.out:
            chunk.loc[keep, shown].to_csv(args.out, mode="a", header=False, index=False)
        found = chunk.assign(**{args.column: numbers})[keep]
        matching += len(found)
        first = pd.concat([first, found.head(args.limit)]).head(args.limit)
        if args.top:
            top = pd.concat([top, found]).nlargest(args.top, args.column)
        if args.bottom:
            bottom = pd.concat([bottom, found]).nsmallest(args.bottom, args.column)

    result: dict[str, Any] = {**table.report(), "matching": matching}
    picked = {"top": top, "bottom": bottom} if args.top or args.bottom else {"rows_shown": first}
    for key, frame in picked.items():
        if frame is not None:
            result[key] = frame[shown].to_dict("records")
    if args.out:
        result["out"] = args.out
    return result


if __name__ == "__main__":
    run(main)
