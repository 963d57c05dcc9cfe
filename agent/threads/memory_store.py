"""Builds the memory of the one-tool agent from the settings: its database and its embedder."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from agent.settings import MEMORY, Settings
from libs.persistence.thread_database import Database, PostgresDatabase, SqliteDatabase
from libs.persistence.thread_memory import Embedder, MessageMemory
from libs.persistence.thread_store import ThreadStore

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

__all__ = ["Memory", "build_database", "build_memory", "kept_data"]

_KEYS = {"openai": "OPENAI_API_KEY", "cohere": "COHERE_API_KEY", "mistralai": "MISTRAL_API_KEY"}
"""Provider of embeddings -> the variable that holds its key."""


@dataclass(frozen=True)
class Memory:
    """The kept messages, and how many of them a model is sent."""

    messages: MessageMemory
    last: int
    """Number of the thread's newest messages."""
    recalled: int
    """Number of earlier messages besides."""
    scope: Literal["thread", "owner"]


def build_database(settings: Settings) -> Database:
    """Return the database for messages, values and files of threads: a file, or Postgres if configured."""
    return PostgresDatabase(url) if (url := settings.postgres_url) else SqliteDatabase(MEMORY)


def build_memory(settings: Settings, database: Database) -> Memory:
    """Build the memory. The database and the embedder are opened at their first use."""
    embedder = _Deferred(functools.partial(_embeddings, settings)) if settings.embedder else None
    return Memory(
        MessageMemory(database, embedder, label=settings.embedder or ""),
        last=settings.memory_messages,
        recalled=settings.memory_recall,
        scope=settings.memory_scope,
    )


@asynccontextmanager
async def kept_data(settings: Settings) -> AsyncIterator[tuple[ThreadStore | MessageMemory, ...]]:
    """Open what holds the values, files and messages of threads; empty if nothing was ever kept."""
    if settings.postgres_url is None and not await asyncio.to_thread(MEMORY.exists):
        yield ()
        return
    database = await asyncio.to_thread(build_database, settings)
    try:
        yield ThreadStore(database), MessageMemory(database)
    finally:
        await asyncio.to_thread(database.close)


class _Deferred(Embedder):
    """An embedder that is built, and whose package is imported, at its first use."""

    def __init__(self, build: Callable[[], Embeddings]) -> None:
        self._build = functools.cache(build)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return await (await asyncio.to_thread(self._build)).aembed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return await (await asyncio.to_thread(self._build)).aembed_query(text)


def _embeddings(settings: Settings) -> Embeddings:
    from langchain.embeddings import init_embeddings

    provider, _, name = str(settings.embedder).partition(":")
    options: dict[str, Any] = {}
    if (variable := _KEYS.get(provider)) and (key := settings.secret(variable)):
        options["api_key"] = key
    if provider == "openai" and settings.openai_base_url:
        # The client needs a key even if the server ignores it.
        options = {"api_key": "none", **options, "base_url": settings.openai_base_url}
    return init_embeddings(name, provider=provider, **options)
