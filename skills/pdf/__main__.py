"""The command `generate-pdf NAME [TITLE] < markdown`: prints the path of the PDF that it made."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from skills.pdf import generate


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(1, f"{self.format_usage()}error: {message}\n")


def main() -> None:
    parser = _Parser(prog="generate-pdf", description="Make /results/NAME.pdf of the Markdown on stdin.")
    parser.add_argument(
        "name", metavar="NAME", help="its name in /results; .pdf is added where it is missing"
    )
    parser.add_argument("title", metavar="TITLE", nargs="?", help="printed above the text")
    arguments = parser.parse_args()
    if sys.stdin.isatty():
        parser.error("the Markdown comes on standard input: generate-pdf report < report.md")
    try:
        print(generate(sys.stdin.buffer.read().decode(), arguments.name, arguments.title))
    except (ValueError, OSError) as error:  # ValueError: text that is not UTF-8, too
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
