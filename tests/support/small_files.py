"""Make small PNG and PDF files without a library."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

__all__ = ["pdf", "pdf_document", "png"]


def png(width: int = 2, height: int = 2, rgb: tuple[int, int, int] = (255, 0, 0)) -> bytes:
    """Return a PNG picture of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes(rgb) * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def pdf(*pages: str, width: int = 200, height: int = 100) -> bytes:
    """Return a PDF document with a line of text on each page."""
    return pdf_document([f"BT /F1 24 Tf 20 40 Td ({text}) Tj ET" for text in pages], width, height)


def pdf_document(streams: Sequence[str], width: int, height: int) -> bytes:
    """Return a PDF document with a page for each stream of drawing commands. `/F1` is Helvetica."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(streams)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(streams)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    box = f"/MediaBox [0 0 {width} {height}] /Resources << /Font << /F1 3 0 R >> >>"
    for n, stream in enumerate(streams):
        objects.append(f"<< /Type /Page /Parent 2 0 R {box} /Contents {5 + 2 * n} 0 R >>")
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    made = b"%PDF-1.4\n"
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(made))
        made += f"{number} 0 obj\n{body}\nendobj\n".encode()
    listed = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"xref\n0 {size}\n0000000000 65535 f \n{listed}trailer << /Size {size} /Root 1 0 R >>\n"
    return made + f"{end}startxref\n{len(made)}\n%%EOF\n".encode()
