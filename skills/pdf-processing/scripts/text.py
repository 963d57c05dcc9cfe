"""Text of a PDF, page by page: printed up to a limit, or written whole to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pdf_command import Parser, open_pdf, page_numbers, run

from skills.file._script import CommandError, positive


def main() -> dict[str, Any]:
    parser = Parser(__doc__)
    parser.add_argument("--pages", metavar="RANGES", help="such as 1-3,7,10- (default all)")
    parser.add_argument(
        "--layout", action="store_true", help="keep columns apart with spaces, as on the page"
    )
    parser.add_argument(
        "--limit", type=positive, default=20_000, metavar="CHARS", help="characters to print (default 20000)"
    )
    parser.add_argument("--out", help="write the whole text to this file and print none of it")
    args = parser.parse_args()
    reader = open_pdf(args.file, args.password)
    numbers = page_numbers(args.pages, len(reader.pages))
    if args.out and Path(args.out).resolve() == Path(args.file).resolve():
        raise CommandError("--out is the file that is read")

    def text_of(number: int) -> str:
        page = reader.pages[number - 1]
        text = page.extract_text(extraction_mode="layout") if args.layout else page.extract_text()
        if not text.strip():
            without.append(number)
        return text

    without: list[int] = []
    result: dict[str, Any] = {"file": args.file, "pages": len(reader.pages), "without_text": without}
    if args.out:
        out = Path(args.out)
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("w", encoding="utf-8", errors="replace") as file:
            characters = sum(file.write(f"--- page {number} ---\n{text_of(number)}\n") for number in numbers)
        return result | {"pages_written": len(numbers), "characters": characters, "out": args.out}

    shown: list[dict[str, Any]] = []
    left = args.limit
    for number in numbers:
        if left <= 0:
            break
        text = text_of(number)
        shown.append({"page": number, "characters": len(text), "text": text[:left]})
        left -= len(text)
    return result | {"text": shown, "cut": left < 0, "pages_left_out": len(numbers) - len(shown)}


if __name__ == "__main__":
    run(main)
