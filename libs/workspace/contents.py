"""Keeps the contents of files, each once, by their SHA-256: in a folder, or at a provider of objects."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path
from typing import Final

import obstore
import zstandard
from obstore.exceptions import BaseError
from obstore.store import LocalStore, ObjectStore, from_url

__all__ = ["ContentMissing", "Contents", "SnapshotsUnavailable"]

_LEVEL: Final = 1
"""Level of zstd: faster than a disk."""
_AT_ONCE: Final = 64
"""Contents that are written at once."""
_PIECE: Final = 1024 * 1024
"""Bytes of a piece that is read at once."""
_SECONDS: Final = "20s"
"""Time-out of one request to a provider. obstore repeats a failed request."""


class SnapshotsUnavailable(Exception):
    """The place of the contents or their database cannot be used. `hint` says what to do."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class _Another(Exception):
    """The content has another SHA-256 than named."""


class ContentMissing(SnapshotsUnavailable):
    """A content is not in the store: it was removed, or is damaged."""


class Contents:
    """Contents by SHA-256, compressed with zstd.

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
        self._place: Path | None = None
        self._store: ObjectStore | None = None
        if "://" not in url:
            self._place = Path(url).absolute()
            return
        try:
            self._store = from_url(url, client_options={"timeout": _SECONDS})
        except (BaseError, ValueError) as error:
            raise self._unavailable(error) from error

    async def put(self, contents: Sequence[tuple[str, bytes]]) -> dict[str, int]:
        """Keep small contents, each under the SHA-256 that is named. Return SHA-256 -> bytes in the store.

        A content with another SHA-256 than named is left out: the sandbox that sends it may be hostile, and all
        threads share the store.
        """
        packed = await asyncio.to_thread(_packed, contents)
        try:
            store = await self._opened()
            for at in range(0, len(packed), _AT_ONCE):
                await asyncio.gather(
                    *(
                        obstore.put_async(store, _path(digest), data, use_multipart=False)
                        for digest, data in packed[at : at + _AT_ONCE]
                    )
                )
        except (BaseError, OSError) as error:
            raise self._unavailable(error) from error
        return {digest: len(data) for digest, data in packed}

    async def put_large(self, digest: str, pieces: AsyncIterator[bytes]) -> int | None:
        """Keep one content that comes in pieces. Return its bytes in the store; None for another SHA-256."""
        size = 0

        async def packed() -> AsyncIterator[bytes]:
            nonlocal size
            found = hashlib.sha256()
            coder = zstandard.ZstdCompressor(level=_LEVEL).compressobj()

            def add(piece: bytes) -> bytes:
                found.update(piece)
                return coder.compress(piece)

            async for piece in pieces:
                data = await asyncio.to_thread(add, piece)
                size += len(data)
                yield data
            if found.hexdigest() != digest:
                raise _Another
            data = coder.flush()
            size += len(data)
            yield data

        try:
            await obstore.put_async(await self._opened(), _path(digest), packed(), use_multipart=True)
        except _Another:
            return None
        except (BaseError, OSError) as error:
            raise self._unavailable(error) from error
        return size

    async def get(self, digest: str) -> AsyncIterator[bytes]:
        """Yield a content in pieces.

        Raises:
            ContentMissing: the content is not there, or is not what its name says.
        """
        found = hashlib.sha256()
        coder = zstandard.ZstdDecompressor().decompressobj()
        try:
            answer = await obstore.get_async(await self._opened(), _path(digest))
            async for packed in answer.stream(min_chunk_size=_PIECE):
                piece = await asyncio.to_thread(coder.decompress, packed)
                found.update(piece)
                yield piece
        except FileNotFoundError as error:
            raise _missing(digest, "is gone") from error
        except zstandard.ZstdError as error:
            raise _missing(digest, "is damaged") from error
        except (BaseError, OSError) as error:
            raise self._unavailable(error) from error
        if found.hexdigest() != digest:
            raise _missing(digest, "is damaged")

    async def remove(self, digests: Collection[str]) -> None:
        """Remove contents. Missing contents are no error."""
        try:
            store = await self._opened()
            for digest in digests:
                try:
                    await obstore.delete_async(store, _path(digest))
                except FileNotFoundError:
                    pass
        except (BaseError, OSError) as error:
            raise self._unavailable(error) from error

    async def _opened(self) -> ObjectStore:
        if self._store is None:
            self._store = await asyncio.to_thread(self._open_folder)
        return self._store

    def _open_folder(self) -> ObjectStore:
        assert self._place is not None
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return LocalStore(self._place)

    def _unavailable(self, error: Exception) -> SnapshotsUnavailable:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
        return SnapshotsUnavailable(
            f"The snapshots at {self._url} cannot be used: {reason}.",
            hint="Free some disk, or correct SNAPSHOTS_URL and the credentials for it.",
        )


def _packed(contents: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Return the contents whose SHA-256 is as named, compressed."""
    coder = zstandard.ZstdCompressor(level=_LEVEL)
    return [
        (digest, coder.compress(content))
        for digest, content in contents
        if hashlib.sha256(content).hexdigest() == digest
    ]


def _path(digest: str) -> str:
    return f"contents/{digest[:2]}/{digest}"


def _missing(digest: str, why: str) -> ContentMissing:
    return ContentMissing(
        f"The content {digest[:12]} of a file {why}.",
        hint="Go back to another snapshot; `code-agent snapshots ls` lists them.",
    )
