"""The requests by which `libs.workspace` captures a workspace and brings it back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

__all__ = ["Tree"]


class Tree(Protocol):
    """Holds a workspace, which can be captured and brought back."""

    async def atree(
        self,
        do: str,
        *,
        content: bytes = b"",
        feed: Callable[[], AsyncIterator[bytes]] | None = None,
        size: int = 0,
        **arguments: Any,
    ) -> tuple[dict[str, Any], bytes, bytes]:
        """Run an operation of `libs.workspace` on the whole workspace: `walk`, `parts` or `apply`.

        Returns its answer and two contents. Nothing is redacted: the caller redacts what it passes on. The
        operation takes at most 600 s, and a second for each 10 MB of input.

        Args:
            content: input.
            feed: returns more input, as it is needed.
            size: bytes that `feed` yields.

        Raises:
            FileFailed: the operation failed.
        """
        ...
