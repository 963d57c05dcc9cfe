"""Decodes a page by its byte order mark, the stated encoding, or a guess."""

from __future__ import annotations

import codecs
import re

__all__ = ["decode"]

# The encodings that browsers use for these names: https://encoding.spec.whatwg.org/#names-and-labels.
_MEANT = {
    **dict.fromkeys(("iso8859-1", "ascii", "latin-1"), "cp1252"),
    **{"iso8859-9": "cp1254", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949"},
}
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def decode(content: bytes, charset: str | None, *, markup: bool) -> str:
    """Return the text; invalid bytes become U+FFFD. `markup`: HTML or XML, which may state its encoding."""
    for mark, codec in _MARKS:
        if content.startswith(mark):
            return content[len(mark) :].decode(codec, "replace")
    for name in (charset, _declared(content) if markup else None):
        if codec := _codec(name):
            return content.decode(codec, "replace")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return _guessed(content)


def _declared(content: bytes) -> str | None:
    """Return the encoding of a meta element or an XML declaration in the first 4 KB."""
    found = re.search(
        rb"<meta[^>]{1,300}charset\s*=\s*[\"']?\s*([\w.:-]+)|<\?xml[^>]{1,100}encoding\s*=\s*[\"']([\w.:-]+)",
        content[:4096],
        re.IGNORECASE,
    )
    return (found[1] or found[2]).decode() if found else None


def _codec(name: str | None) -> str | None:
    if not name:
        return None
    try:
        known = codecs.lookup(name)
        "".encode(known.name)  # raises for a codec that is not for text
    except (LookupError, ValueError):
        return None
    # A page whose declaration was readable as ASCII is not UTF-16.
    return "utf-8" if known.name.startswith("utf-16") else _MEANT.get(known.name, known.name)


def _guessed(content: bytes) -> str:
    from charset_normalizer import from_bytes

    best = from_bytes(content[:100_000]).best()
    return content.decode(best.encoding if best else "cp1252", "replace")
