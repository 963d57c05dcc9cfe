"""What threads keep, in whichever database."""

from __future__ import annotations

from pathlib import Path

from libs.persistence.database import Database, PostgresDatabase, SqliteDatabase

__all__ = ["opened"]


def opened(url: str) -> Database:
    """The database at a URL, or in the file of this path."""
    return PostgresDatabase(url) if "://" in url else SqliteDatabase(Path(url))
