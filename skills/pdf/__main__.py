"""The command `generate-pdf NAME [TITLE] < markdown`: prints the path of the PDF that it made."""

from __future__ import annotations

import sys

from skills.file._script import Parser
from skills.pdf import generate


def main() -> None:
    parser = Parser("Make /results/NAME.pdf of the Markdown on stdin.")
    parser.prog = "generate-pdf"
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
