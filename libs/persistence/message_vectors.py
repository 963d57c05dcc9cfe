"""Finds the messages nearest to a vector: reads all vectors and compares them in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from libs.persistence.thread_database import Do

__all__ = ["Scope", "nearest", "packed"]

Scope = tuple[str, str]
"""Which messages: the column `thread` or `owner`, and its value."""


def packed(vector: Sequence[float]) -> bytes:
    """Return a vector as it is stored: of length 1, in half precision.

    Raises:
        ValueError: the value is not a vector.
    """
    array = np.asarray(vector, dtype=np.float32)
    length = float(np.linalg.norm(array))
    if array.ndim != 1 or not np.isfinite(length):
        raise ValueError("the embedder gave something that is not a vector")
    return bytes((array / length if length else array).astype(np.float16).tobytes())


def nearest(do: Do, scope: Scope, label: str, vector: Sequence[float], count: int) -> list[int]:
    """Return the numbers of the messages nearest to a vector, nearest first.

    Args:
        label: the embedder of the vector: only vectors of the same embedder are compared.
    """
    column, whose = scope
    sql = f"SELECT number, vector FROM message_vectors WHERE {column} = ? AND embedder = ? ORDER BY number"  # noqa: S608
    rows = do(sql, whose, label)
    if not rows:
        return []
    stored = np.frombuffer(b"".join(bytes(row[1]) for row in rows), dtype=np.float16)
    near = stored.reshape(len(rows), -1).astype(np.float32) @ np.asarray(vector, dtype=np.float32)
    return [int(rows[int(index)][0]) for index in np.argsort(-near, kind="stable")[:count]]
