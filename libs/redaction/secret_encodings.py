"""Lists the forms in which a secret may appear: plain, escaped or encoded."""

from __future__ import annotations

import base64
import json
import re
from urllib.parse import quote

__all__ = ["written_forms"]

_URL_SAFE = ("", "/", "!'()*", "*", ";,/?:@&=+$!'()*#")
"""Unescaped characters besides letters, digits and `-._~`: Python, encodeURIComponent, forms, encodeURI."""
_SHORTEST_LINE = 16
"""Shortest line of a PEM block that counts as a secret by itself, in characters."""


def written_forms(secret: str) -> set[bytes]:
    """Return every form of a secret, as bytes.

    Plain; escaped in JSON, a Python literal or a shell; percent-encoded with upper or lower case digits, and
    with `+` for a space; base64 with either alphabet, at each of the three offsets in a longer text;
    hexadecimal. A base64 form contains only characters that depend on the secret alone, so up to four bits of
    its first and last byte may remain beside it. Each line of a PEM block counts too, because lines often
    appear alone.
    """
    forms = _forms(secret)
    if secret.startswith("-----BEGIN "):
        for line in secret.splitlines():
            if len(line) >= _SHORTEST_LINE and not line.startswith("-----"):
                forms |= _forms(line)
    return forms


def _forms(secret: str) -> set[bytes]:
    raw = _bytes(secret)
    forms = {raw, raw.hex().encode(), raw.hex().upper().encode()}
    forms |= {_bytes(form) for form in _escaped(secret)}
    forms |= _percent_encoded(raw)
    for core in _base64(raw):
        forms |= {core, core.replace(b"/", rb"\/")} | _percent_encoded(core)
    return forms


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")  # as Python decodes the environment
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _escaped(secret: str) -> set[str]:
    ascii_only = json.dumps(secret)[1:-1]
    as_json = {
        ascii_only,
        json.dumps(secret, ensure_ascii=False)[1:-1],
        re.sub(r"\\u[0-9a-f]{4}", lambda code: rf"\u{code[0][2:].upper()}", ascii_only),
    }
    return {
        *as_json,
        *(form.replace("/", r"\/") for form in as_json),
        repr(secret)[1:-1],
        repr(_bytes(secret))[2:-1],
        re.sub(r'(["$`\\])', r"\\\1", secret),  # export -p
        secret.replace("'", r"'\''"),  # set -x
    }


def _percent_encoded(raw: bytes) -> set[bytes]:
    encoded = {quote(raw, safe=safe) for safe in _URL_SAFE}
    encoded |= {form.replace("~", "%7E") for form in encoded}
    encoded |= {form.replace("%20", "+") for form in encoded}
    encoded |= {re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), form) for form in encoded}
    return {form.encode() for form in encoded}


def _base64(raw: bytes) -> set[bytes]:
    cores = set()
    for before in range(3):
        # The first characters contain bits of the text before, the last may contain bits of the text after.
        first, last = (before * 8 + 5) // 6, (before + len(raw)) * 8 // 6
        cores.add(base64.b64encode(b"\0" * before + raw)[first:last])
    return cores | {core.translate(bytes.maketrans(b"+/", b"-_")) for core in cores}
