"""List the form fields of a PDF: name, kind, value, and the states or options that are allowed."""

from __future__ import annotations

from typing import Any

from form import fields_of, has_xfa
from pdf_command import Parser, open_pdf, run


def main() -> dict[str, Any]:
    args = Parser(__doc__).parse_args()
    reader = open_pdf(args.file, args.password)
    return {
        "file": args.file,
        "pages": len(reader.pages),
        "xfa_form": has_xfa(reader),
        "fields": [field.described() for field in fields_of(reader)],
    }


if __name__ == "__main__":
    run(main)
