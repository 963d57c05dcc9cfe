"""What a server knows besides checkpoints, such as which threads and runs there are: rows of texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from libs.persistence.served_saver import ServedSaver

__all__ = ["Key", "load_rows", "save_rows"]

Key = tuple[str, str]
"""Kind and id of a row."""


async def load_rows(saver: ServedSaver) -> dict[Key, str]:
    """All rows."""
    async with saver.transaction() as do:
        rows = await do("SELECT kind, id, value FROM server_rows")
    return {(str(kind), str(key)): str(value) for kind, key, value in rows}


async def save_rows(saver: ServedSaver, changed: Mapping[Key, str], gone: Iterable[Key]) -> None:
    """Write rows and delete others, all together or not at all; on the disk when this returns."""
    async with saver.transaction() as do:
        for (kind, key), value in changed.items():
            await do(
                "INSERT INTO server_rows VALUES (?, ?, ?) "
                "ON CONFLICT (kind, id) DO UPDATE SET value = excluded.value",
                kind,
                key,
                value,
            )
        for kind, key in gone:
            await do("DELETE FROM server_rows WHERE kind = ? AND id = ?", kind, key)
