"""Moves the contents of a workspace from its sandbox to where they are kept, in parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from libs.sandbox import Tree
from libs.workspace.catalog import Catalog
from libs.workspace.contents import Contents
from libs.workspace.manifest import Entry, Manifest, inside
from libs.workspace.transfer import BATCH, Part, batches, parts_of, read_parts

__all__ = ["keep_contents"]

_AT_ONCE: Final = 2
"""Batches of contents on their way at once, so memory stays bounded."""


async def keep_contents(
    sandbox: Tree, catalog: Catalog, kept: Contents, now: Manifest, earlier: Manifest | None
) -> set[str]:
    """Keep the contents of a workspace that the store does not have.

    Args:
        now: the workspace as it was just walked.
        earlier: a manifest of the workspace whose contents are kept, if there is one.

    Returns the paths of files whose content has changed since the walk, so it could not be kept.
    """
    missing = await catalog.missing(now, earlier)
    paths = {digest: path for path, entry in now.entries.items() if (digest := entry.sha256) in missing}
    files = {inside(path): now.entries[path] for path in paths.values()}
    if not files:
        return set()
    wrong: set[str | None] = set()
    place = await catalog.open_place()
    slots = asyncio.Semaphore(_AT_ONCE)

    async def keep(batch: list[Part]) -> None:
        async with slots:
            contents = await read_parts(sandbox, batch)
            named = [
                (files[path].sha256 or "", content)
                for (path, _, _), content in zip(batch, contents, strict=True)
            ]
            sizes = await kept.put(place, named)
            await catalog.kept(place, sizes)
            wrong.update({files[path].sha256 for path, _, _ in batch} - sizes.keys())

    async def keep_large(path: str, entry: Entry, digest: str) -> None:
        async def pieces() -> AsyncIterator[bytes]:
            for part in parts_of(path, entry):
                yield (await read_parts(sandbox, [part]))[0]

        async with slots:
            size = await kept.put_large(place, digest, pieces())
            if size is None:
                wrong.add(digest)
            else:
                await catalog.kept(place, {digest: size})

    try:
        async with asyncio.TaskGroup() as tasks:
            for batch in batches({path: entry for path, entry in files.items() if entry.size <= BATCH}):
                tasks.create_task(keep(batch))
            for path, entry in files.items():
                if entry.size > BATCH and entry.sha256:
                    tasks.create_task(keep_large(path, entry, entry.sha256))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    await catalog.close_place(place)
    return {path for path, entry in now.entries.items() if entry.sha256 and entry.sha256 in wrong}
