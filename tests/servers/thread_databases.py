"""The two databases for threads, for tests that run on both."""

from __future__ import annotations

from pathlib import Path

import pytest

from libs.persistence.thread_database import Database, PostgresDatabase, SqliteDatabase

DATABASES = ["sqlite", pytest.param("postgres", marks=pytest.mark.thorough)]
"""Tests on PostgreSQL are thorough."""

both_databases = pytest.mark.parametrize("database_url", ["sqlite", "postgres"], indirect=True)
"""Marks a test of SQL that differs between the databases, so that the test always runs on both."""


def opened(url: str) -> Database:
    """Open the database at a URL, or in a file."""
    return PostgresDatabase(url) if "://" in url else SqliteDatabase(Path(url))
