"""Packs the paths that each thread has changed, for the database."""

from __future__ import annotations

import json
from collections.abc import Mapping

import zstandard

__all__ = ["packed", "unpacked"]


def packed(changes: Mapping[str, list[str]]) -> bytes:
    text = json.dumps(changes, ensure_ascii=False)
    return zstandard.ZstdCompressor().compress(text.encode("utf-8", "surrogatepass"))


def unpacked(data: bytes) -> dict[str, list[str]]:
    text = zstandard.ZstdDecompressor().decompress(bytes(data)).decode("utf-8", "surrogatepass")
    changes: dict[str, list[str]] = json.loads(text)
    return changes
