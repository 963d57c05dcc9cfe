"""Keeps the contents of files, each once, by their SHA-256: in a folder, or at a provider of objects.

The synchronous functions of `obstore` are called, in threads that Python joins at its end. The asynchronous
functions end in threads of `obstore`, a moment after the caller has gone on. If Python ends in this moment,
such a thread aborts the process.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import obstore
import zstandard
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, ObjectStore, from_url

from libs.sandbox import FileFailed

if TYPE_CHECKING:
    from obstore.store import RetryConfig

__all__ = ["ContentMissing", "Contents", "SnapshotsUnavailable", "content_missing"]

Result = TypeVar("Result")

_ID: Final = "store-id"
"""Name of the file with the id of the store."""
_LEVEL: Final = 1
"""Level of zstd: faster than a disk."""
_AT_ONCE: Final = 64
"""Calls of `obstore` at once. Further calls wait."""
_PARTS: Final = 2
"""Parts of a large content that are on their way at once. Each has 5 MB and stays in memory meanwhile."""
_PIECE: Final = 1024 * 1024
"""Bytes of a piece that is read at once."""
_RETRIES: Final[RetryConfig] = {"max_retries": 5, "retry_timeout": timedelta(seconds=30)}
"""How often and how long a failed request to a provider is repeated. Other options, such as AWS_ALLOW_HTTP,
come from the environment, which obstore ignores if client options are passed."""


class SnapshotsUnavailable(Exception):
    """The place of the contents or their database cannot be used. `hint` says what to do."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class _Another(Exception):
    """The content has another SHA-256 than named."""


class _Cancelled(Exception):
    """Nobody waits for the content any more."""


class ContentMissing(SnapshotsUnavailable):
    """A content is not in the store: it was removed, or is damaged."""


class Contents:
    """Contents by SHA-256, compressed with zstd.

    Each capture keeps its new contents in a folder of its own, the place. So what is removed is never what
    another capture keeps at the same time.

    All methods raise SnapshotsUnavailable if the place cannot be used.
    """

    def __init__(self, url: str) -> None:
        """Use a place. Nothing is read or written yet.

        Args:
            url: a folder, or a URL that `obstore` understands, such as `s3://bucket/prefix`. Credentials come
                from the environment, as for other programs of the provider. A folder is made with the first
                content, and only its owner can read it.

        Raises:
            SnapshotsUnavailable: the URL is not valid.
        """
        self._url = url
        # Not the event loop's own threads: these must stay free for what the contents come from.
        self._threads = ThreadPoolExecutor(_AT_ONCE, "contents")
        self._place: Path | ObjectStore
        """A folder that may not exist yet, or an open store."""
        if "://" not in url or url.startswith("file://"):
            self._place = Path(url.removeprefix("file://")).absolute()
            return
        try:
            self._place = from_url(url, retry_config=_RETRIES)
        except (BaseError, ValueError) as error:
            raise self._unavailable(error) from error

    async def put(self, place: str, contents: Sequence[tuple[str, bytes]]) -> dict[str, int]:
        """Keep small contents, each under the SHA-256 that is named. Return SHA-256 -> bytes in the store.

        A content with another SHA-256 than named is left out, because the sandbox may be hostile, and all
        threads share the store.
        """
        packed = await asyncio.to_thread(_packed, contents)
        try:
            store = await self._opened()
            for at in range(0, len(packed), _AT_ONCE):  # after an error, no further ones begin
                await asyncio.gather(
                    *(
                        self._in_thread(obstore.put, store, _path(place, digest), data, use_multipart=False)
                        for digest, data in packed[at : at + _AT_ONCE]
                    )
                )
        except (BaseError, OSError) as error:
            raise self._unavailable(error) from error
        return {digest: len(data) for digest, data in packed}

    async def put_large(self, place: str, digest: str, pieces: AsyncIterator[bytes]) -> int | None:
        """Keep one content that comes in pieces. Return its bytes in the store; None for another SHA-256.

        Errors of `pieces` are raised as they are.
        """
        loop = asyncio.get_running_loop()
        size = 0
        cancelled = False

        async def next_piece() -> bytes | None:
            return await anext(pieces, None)

        def packed() -> Iterator[bytes]:
            nonlocal size
            found = hashlib.sha256()
            coder = zstandard.ZstdCompressor(level=_LEVEL)
            while (piece := asyncio.run_coroutine_threadsafe(next_piece(), loop).result()) is not None:
                if cancelled:
                    raise _Cancelled
                # Each piece is a frame of its own, so `get` never unpacks more than one piece at once.
                found.update(piece)
                data = coder.compress(piece)
                size += len(data)
                yield data
            if found.hexdigest() != digest:
                raise _Another

        try:
            await self._in_thread(
                obstore.put,
                await self._opened(),
                _path(place, digest),
                packed(),
                use_multipart=True,
                max_concurrency=_PARTS,
            )
        except _Another:
            return None
        except asyncio.CancelledError:
            cancelled = True
            raise
        except FileFailed:  # an OSError of the sandbox, from `pieces`
            raise
        except (BaseError, OSError) as error:
            raise self._unavailable(error) from error
        return size

    async def get(self, place: str, digest: str) -> AsyncIterator[bytes]:
        """Yield a content in pieces.

        Raises:
            ContentMissing: the content is not there, or is not what its name says.
        """
        found = hashlib.sha256()
        decoder = zstandard.ZstdDecompressor()
        frame = decoder.decompressobj()
        try:
            answer = await self._in_thread(obstore.get, await self._opened(), _path(place, digest))
            stream = answer.stream(min_chunk_size=_PIECE)
            while data := await self._in_thread(next, stream, None):
                packed = bytes(data)
                while packed:
                    piece = await asyncio.to_thread(frame.decompress, packed)
                    found.update(piece)
                    yield piece
                    packed = frame.unused_data
                    if frame.eof:
                        frame = decoder.decompressobj()
        except FileNotFoundError as error:
            raise content_missing(digest, "is gone") from error
        except zstandard.ZstdError as error:
            raise content_missing(digest, "is damaged") from error
        except (BaseError, OSError) as error:
            raise self._unavailable(error) from error
        if found.hexdigest() != digest:
            raise content_missing(digest, "is damaged")

    async def store_id(self, *, make: bool) -> str | None:
        """Return the id that stands at the URL, so that another place is told from an empty one.

        Args:
            make: whether to make an id where there is none. Otherwise None is returned.
        """
        try:
            store = await self._opened()
            return await self._in_thread(_id_of, store, make)
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            raise self._unavailable(error) from error

    async def at_place(self, place: str) -> list[str]:
        """Return the SHA-256 of all contents at a place."""
        try:
            listed = obstore.list(await self._opened(), f"contents/{place}")
            return [each["path"].rpartition("/")[2] for each in await self._in_thread(listed.collect)]
        except (BaseError, OSError) as error:
            raise self._unavailable(error) from error

    async def remove(self, contents: Collection[tuple[str, str]]) -> None:
        """Remove contents, each given by place and SHA-256. Missing contents are no error."""

        def gone(path: str) -> None:
            with suppress(FileNotFoundError):
                obstore.delete(store, path)

        try:
            store = await self._opened()
            paths = [_path(*each) for each in contents]
            for at in range(0, len(paths), _AT_ONCE):
                await asyncio.gather(*(self._in_thread(gone, path) for path in paths[at : at + _AT_ONCE]))
        except (BaseError, OSError) as error:
            raise self._unavailable(error) from error

    async def _in_thread(self, call: Callable[..., Result], *args: Any, **options: Any) -> Result:
        bound = functools.partial(call, *args, **options)
        return await asyncio.get_running_loop().run_in_executor(self._threads, bound)

    async def _opened(self) -> ObjectStore:
        if isinstance(self._place, Path):
            self._place = await asyncio.to_thread(_open_folder, self._place)
        return self._place

    def _unavailable(self, error: Exception) -> SnapshotsUnavailable:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
        return SnapshotsUnavailable(
            f"The snapshots at {self._url} cannot be used: {reason}.",
            hint="Free some disk, or correct SNAPSHOTS_URL and the credentials for it.",
        )


def _open_folder(place: Path) -> ObjectStore:
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return LocalStore(place, automatic_cleanup=True)


def _id_of(store: ObjectStore, make: bool) -> str:
    with suppress(AlreadyExistsError):
        if make:
            obstore.put(store, _ID, secrets.token_hex(8).encode(), mode="create")
    return bytes(obstore.get(store, _ID).bytes()).decode()


def _packed(contents: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Return the contents whose SHA-256 is as named, compressed."""
    coder = zstandard.ZstdCompressor(level=_LEVEL)
    return [
        (digest, coder.compress(content))
        for digest, content in contents
        if hashlib.sha256(content).hexdigest() == digest
    ]


def _path(place: str, digest: str) -> str:
    return f"contents/{place}/{digest}"


def content_missing(digest: str, why: str) -> ContentMissing:
    return ContentMissing(
        f"The content {digest[:12]} of a file {why}.",
        hint="Go back to another point; `code-agent rewind THREAD` lists them.",
    )
