"""Metadata of a PDF, its pages with their sizes, whether it is encrypted, has a form or attachments."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from form import fields_of, has_xfa
from pdf_command import Parser, open_pdf, run


def main() -> dict[str, Any]:
    args = Parser(__doc__).parse_args()
    reader = open_pdf(args.file, args.password)
    shapes = [
        (round(float(page.mediabox.width), 1), round(float(page.mediabox.height), 1), page.rotation)
        for page in reader.pages
    ]
    sizes = []
    for (width, height, rotation), pages in groupby(enumerate(shapes, 1), key=lambda item: item[1]):
        numbers = [number for number, _ in pages]
        span = f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
        sizes.append({"pages": span, "width": width, "height": height, "rotation": rotation})
    return {
        "file": args.file,
        "pages": len(reader.pages),
        "encrypted": reader.is_encrypted,
        "metadata": {key.removeprefix("/"): str(value) for key, value in (reader.metadata or {}).items()},
        "sizes_in_points": sizes,
        "form_fields": len(fields_of(reader)),
        "xfa_form": has_xfa(reader),
        "attachments": sorted(reader.attachments),
    }


if __name__ == "__main__":
    run(main)
