"""What the one-tool agent keeps of its threads, where, and by which model it is found again."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from agent.config import MEMORY, Settings
from libs.persistence.database import Database, PostgresDatabase, SqliteDatabase
from libs.persistence.memory import Embedder, MessageMemory
from libs.persistence.thread_store import ThreadStore

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

__all__ = ["Memory", "build_database", "build_memory", "copy_thread", "forget_thread"]

_KEYS = {"openai": "OPENAI_API_KEY", "cohere": "COHERE_API_KEY", "mistralai": "MISTRAL_API_KEY"}
"""Providers of embeddings, and the variable that holds the key of each."""


@dataclass(frozen=True)
class Memory:
    """What is remembered, and how much of it a model is sent."""

    messages: MessageMemory
    last: int
    """Messages of the thread, the newest."""
    recalled: int
    """Earlier ones besides."""
    scope: Literal["thread", "owner"]


def build_database(settings: Settings) -> Database:
    """What keeps messages, values and files of threads: a file, or where the settings say so their
    database."""
    return PostgresDatabase(url) if (url := settings.postgres_url) else SqliteDatabase(MEMORY)


def build_memory(settings: Settings, database: Database) -> Memory:
    """Make it as the settings say. Needs neither the database nor the model before its first use."""
    embedder = _Deferred(functools.partial(_embeddings, settings)) if settings.embedder else None
    return Memory(
        MessageMemory(database, embedder, label=settings.embedder or ""),
        last=settings.memory_messages,
        recalled=settings.memory_recall,
        scope=settings.memory_scope,
    )


async def copy_thread(settings: Settings, source: str, target: str) -> None:
    """Give a thread that was copied from another what is kept of that one.

    Raises:
        CheckpointerUnavailable: the database cannot be used.
    """
    async with _opened(settings) as database:
        if database:
            await ThreadStore(database).copy(source, target)
            await MessageMemory(database).copy(source, target)


async def forget_thread(settings: Settings, thread: str) -> None:
    """Remove all that is kept of a thread that is gone for good.

    Raises:
        CheckpointerUnavailable: the database cannot be used.
    """
    async with _opened(settings) as database:
        if database:
            await ThreadStore(database).forget(thread)
            await MessageMemory(database).forget(thread)


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Database | None]:
    """The database; None where nothing was ever kept."""
    if settings.postgres_url is None and not await asyncio.to_thread(MEMORY.exists):
        yield None
        return
    database = await asyncio.to_thread(build_database, settings)
    try:
        yield database
    finally:
        await asyncio.to_thread(database.close)


class _Deferred(Embedder):
    """The embedder that the settings name, made at its first use: its package is imported then."""

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
        options |= {"base_url": settings.openai_base_url}
        options.setdefault(
            "api_key", "none"
        )  # the client insists on one; a server that needs none ignores it
    return init_embeddings(name, provider=provider, **options)
