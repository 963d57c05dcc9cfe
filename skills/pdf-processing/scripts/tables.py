"""Tables of a PDF, page by page, as JSON and, with --out, each as a CSV file."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pdfplumber
from pdf_command import Parser, open_pdf, page_numbers, run

from skills.file._script import positive


def main() -> dict[str, Any]:
    parser = Parser(__doc__)
    parser.add_argument("--pages", metavar="RANGES", help="such as 1-3,7,10- (default all)")
    parser.add_argument(
        "--by",
        choices=["lines", "text"],
        default="lines",
        help="what separates cells: drawn lines (default), or the gaps between words",
    )
    parser.add_argument("--limit", type=positive, default=50, help="rows to print of each table (default 50)")
    parser.add_argument("--out", metavar="FOLDER", help="also write every row, one CSV file a table")
    args = parser.parse_args()
    reader = open_pdf(args.file, args.password)
    numbers = page_numbers(args.pages, len(reader.pages))
    if args.out:
        Path(args.out).mkdir(parents=True, exist_ok=True)

    settings = {"vertical_strategy": args.by, "horizontal_strategy": args.by}
    found: list[dict[str, Any]] = []
    with pdfplumber.open(args.file, password=args.password or "") as pdf:
        for number in numbers:
            page = pdf.pages[number - 1]
            for index, rows in enumerate(page.extract_tables(settings), 1):
                table: dict[str, Any] = {"page": number, "table": index}
                table |= {"rows": len(rows), "columns": len(rows[0])}
                if args.out:
                    name = f"{Path(args.file).stem}-page{number}-table{index}.csv"
                    table["out"] = str(Path(args.out) / name)
                    with Path(table["out"]).open("w", encoding="utf-8", newline="") as out:
                        csv.writer(out).writerows(rows)
                found.append(table | {"cells": rows[: args.limit]})
            page.close()  # frees the memory of the page
    return {"file": args.file, "pages": len(reader.pages), "tables": found}


if __name__ == "__main__":
    run(main)
