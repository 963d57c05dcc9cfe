"""Vectors of messages, read from the database once and compared all at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from libs.persistence.database import Do

__all__ = ["Scope", "Vectors", "packed"]

Scope = tuple[str, str]
"""Whose messages: `thread` or `owner`, and which."""
_MOST_SCOPES = 16
"""Threads, or owners, whose vectors are held ready; 10,000 of 1,536 numbers take 61 MB."""
_Held = tuple[list[int], npt.NDArray[np.float32]]


def packed(vector: Sequence[float]) -> bytes:
    """A vector as it is kept: of length 1, half precision.

    Raises:
        ValueError: it is none.
    """
    array = np.asarray(vector, dtype=np.float32)
    length = float(np.linalg.norm(array))
    if array.ndim != 1 or not np.isfinite(length):
        raise ValueError("the embedder gave something that is no vector")
    return bytes((array / length if length else array).astype(np.float16).tobytes())


class Vectors:
    """Belongs to the thread of the database."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[Scope, str], _Held] = OrderedDict()

    def clear(self) -> None:
        """Read all of them again."""
        self._held.clear()

    def nearest(
        self, do: Do, scope: Scope, label: str, *, there: int, vector: Sequence[float], count: int
    ) -> list[int]:
        """Numbers of the messages nearest to a vector, the nearest first.

        Args:
            label: of what has made the vector: only those of the same are compared.
            there: how many of those the database has.
        """
        numbers, matrix = self._read(do, scope, label, there)
        if not numbers:
            return []
        near = matrix @ np.asarray(vector, dtype=np.float32)
        return [numbers[int(index)] for index in np.argsort(-near, kind="stable")[:count]]

    def _read(self, do: Do, scope: Scope, label: str, there: int) -> _Held:
        held = self._held.pop((scope, label), None) or ([], np.zeros((0, 0), dtype=np.float32))
        held = _with_newer(do, scope, label, held)
        if there != len(held[0]):  # some were removed, or another program was behind with its own
            held = _with_newer(do, scope, label, ([], held[1][:0]))
        self._held[scope, label] = held
        while len(self._held) > _MOST_SCOPES:
            self._held.popitem(last=False)
        return held


def _with_newer(do: Do, scope: Scope, label: str, held: _Held) -> _Held:
    """With the vectors of messages behind the last that is held."""
    (column, whose), (numbers, matrix) = scope, held
    rows: list[tuple[Any, ...]] = do(
        f"SELECT number, vector FROM message_vectors WHERE {column} = ? AND embedder = ? AND number > ? "  # noqa: S608
        "ORDER BY number",
        *(whose, label, numbers[-1] if numbers else 0),
    )
    if not rows:
        return held
    read = b"".join(bytes(row[1]) for row in rows)
    more = np.frombuffer(read, dtype=np.float16).reshape(len(rows), -1).astype(np.float32)
    whole = np.concatenate([matrix, more]) if numbers else more
    return [*numbers, *(int(row[0]) for row in rows)], whole
