"""Reads files from the snapshots of a thread, such as before or after a turn.

The content comes from the store and not from a sandbox, so secrets are removed here, by the same rules.
Only UTF-8 text is decoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agent.run import ThreadPoints
from agent.secrets import KNOWN
from agent.server.json_exchange import Refused
from agent.server.routes.files.preview_program import MOST_TEXT
from agent.server.routes.files.workspace_files import MOST_DOWNLOADED, absolute, says
from libs.sandbox import FileFailed
from libs.sandbox.host import redacted_content
from libs.workspace import Manifest, folders_above, inside, shown

__all__ = ["Content", "KeptFile", "beginning", "find_kept", "kept_file", "not_kept"]

Content = Callable[[Manifest, str], Awaitable[bytes]]
"""Reads a file of a snapshot. Raises ContentMissing if the content is not kept any more."""


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file in a snapshot of a thread."""

    path: str
    size: int
    manifest: Manifest
    content: Content

    async def read(self) -> bytes:
        """Return the content without known secrets.

        Raises:
            Refused: 422, the file is binary and holds a secret.
            ContentMissing: the content is not kept any more.
        """
        content = await self.content(self.manifest, self.path)
        try:
            return await asyncio.to_thread(redacted_content, KNOWN, content)
        except FileFailed as error:
            raise Refused(*says(error)) from error


async def find_kept(points: ThreadPoints, path: str, at: int | str, *, begin: bool) -> KeptFile:
    """Find a file as it was at the end of a turn or call, or at its begin.

    Args:
        at: the number of the turn, or the key of the call.

    Raises:
        Refused: 400, 404 or 409 for such a path; 410, the content was not kept; 413, the file is too large;
            422, the path is a link, or leads through one.
        WrongPoint, NoCapture, ManifestMissing: see `ThreadPoints.manifest` and `ThreadPoints.at_call`.
    """
    try:
        path = shown(inside(absolute(path)))
    except ValueError as error:
        raise Refused(404, f"{error}.") from None
    if isinstance(at, str):
        manifest, when = await points.at_call(at, begin=begin), "this call"
    else:
        manifest, when = await points.manifest(at, begin=begin), f"turn {at}"
    found = kept_file(manifest, path, points.content)
    if found is None:
        raise Refused(404, f"There was no file {path} {'before' if begin else 'after'} {when}.")
    return found


def kept_file(manifest: Manifest, path: str, content: Content) -> KeptFile | None:
    """Return a file of a snapshot, None if there was none.

    Raises:
        Refused: 409 or 422, it was no file, or a folder above was a link; 410, the content was not kept; 413,
            the file is too large.
    """
    entry = manifest.entries.get(path)
    # What an earlier snapshot knew of a folder that could not be read is no content of this snapshot.
    if why := manifest.unread(path) if entry else manifest.reason(path):
        raise not_kept(path, why)
    if entry is None:
        for folder in folders_above(path):
            if (above := manifest.entries.get(folder)) and above.kind == "link":
                raise Refused(422, f"{folder} was a link to {above.target}: read the file there instead.")
        return None
    if entry.kind == "dir":
        raise Refused(409, "It was a folder, and a file is needed.")
    if entry.kind == "link":
        raise Refused(422, f"It was a link to {entry.target}: read that path instead.")
    if entry.sha256 is None:
        raise Refused(410, f"The content of {path} was not kept: {manifest.reason(path) or 'unknown why'}.")
    if entry.size > MOST_DOWNLOADED:
        raise Refused(413, f"It had {entry.size:,} bytes; {MOST_DOWNLOADED:,} are sent at most.")
    return KeptFile(path, entry.size, manifest, content)


def not_kept(path: str, why: str) -> Refused:
    """Return the refusal for what a snapshot does not hold."""
    return Refused(410, f"{path} was not kept in this snapshot: {why}.")


def beginning(content: bytes) -> tuple[bytes, bool]:
    """Return the first 256 KiB of a text in UTF-8, and whether there is more.

    Raises:
        Refused: 422, it is not text.
    """
    cut, begun = len(content) > MOST_TEXT, content[:MOST_TEXT]
    if b"\0" in begun:
        raise Refused(422, "It cannot be shown: it holds NUL bytes, so it is not text.")
    text = begun.decode("utf-8", "replace")
    return (text.rstrip("\ufffd") if cut else text).encode(), cut
