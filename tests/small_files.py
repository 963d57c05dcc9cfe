"""The smallest files of each kind that the page shows, made here: no library is needed to read the tests."""

from __future__ import annotations

import struct
import zlib

__all__ = ["pdf", "png"]


def png(width: int = 2, height: int = 2, rgb: tuple[int, int, int] = (255, 0, 0)) -> bytes:
    """A picture of one colour."""

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
    """A document with a line of text on each page."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(pages):
        stream = f"BT /F1 24 Tf 20 40 Td ({text}) Tj ET"
        box = f"/MediaBox [0 0 {width} {height}] /Resources << /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R {box} /Contents {5 + 2 * n} 0 R >>")
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    made = b"%PDF-1.4\n"
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(made))
        made += f"{number} 0 obj\n{content}\nendobj\n".encode()
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n"
    return made + end.encode() + f"startxref\n{len(made)}\n%%EOF\n".encode()
