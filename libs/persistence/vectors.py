"""Vectors of messages, read from the database once and compared all at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from libs.persistence.database import Do

__all__ = ["Vectors", "packed"]

_MOST_SCOPES = 16
"""Threads, or owners, whose vectors are held ready; 10,000 of 1,536 numbers take 31 MB."""


def packed(vector: Sequence[float]) -> bytes:
    """A vector as it is kept: of length 1, half precision."""
    array = np.asarray(vector, dtype=np.float32)
    length = float(np.linalg.norm(array))
    whole: bytes = (array / length if length else array).astype(np.float16).tobytes()
    return whole


class Vectors:
    """Belongs to the thread of the database.

    Args:
        label: of the embedder that has made them.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._held: OrderedDict[tuple[str, str], tuple[list[int], npt.NDArray[np.float32]]] = OrderedDict()

    def clear(self) -> None:
        """Read all of them again."""
        self._held.clear()

    def nearest(self, do: Do, scope: tuple[str, str], vector: Sequence[float], count: int) -> list[int]:
        """Numbers of the messages nearest to a vector, the nearest first."""
        numbers, matrix = self._read(do, scope)
        asked = np.asarray(vector, dtype=np.float32)
        if not numbers or matrix.shape[1] != len(asked):
            return []
        near = matrix @ asked
        best = np.argsort(-near)[:count]
        return [numbers[int(index)] for index in best]

    def _read(self, do: Do, scope: tuple[str, str]) -> tuple[list[int], npt.NDArray[np.float32]]:
        numbers, matrix = self._held.pop(scope, ([], np.zeros((0, 0), dtype=np.float32)))
        rows: list[tuple[Any, ...]] = do(
            f"SELECT number, vector FROM thread_messages WHERE {scope[0]} AND embedder = ? AND number > ? "  # noqa: S608
            "ORDER BY number",
            scope[1],
            self._label,
            numbers[-1] if numbers else 0,
        )
        if rows:
            more = np.stack([np.frombuffer(bytes(row[1]), dtype=np.float16) for row in rows]).astype(
                np.float32
            )
            matrix = np.concatenate([matrix, more]) if numbers else more
            numbers = [*numbers, *(int(row[0]) for row in rows)]
        self._held[scope] = numbers, matrix
        while len(self._held) > _MOST_SCOPES:
            self._held.popitem(last=False)
        return numbers, matrix
