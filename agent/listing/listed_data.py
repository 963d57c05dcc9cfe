"""Lists /data for prompts, by a program in the sandbox's image."""

from __future__ import annotations

import asyncio
import posixpath
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware.types import AgentState, PrivateStateAttr
from langgraph.runtime import Runtime

from agent.listing.produced_files import listing
from agent.listing.task_paths import NamedPath, absent
from agent.prompts import exec_prompt
from libs.middleware.prompt_section import AddsSection
from libs.sandbox import Sandbox, SandboxError
from libs.sandbox.host import blocking
from libs.sandbox.pool import FreshSandboxes

__all__ = ["LISTING_SECONDS", "DataListing", "ShowsData", "data_listing"]

_MOST_KEPT = 32
"""Cached listings, each for one state of the folder."""
_FILLED = re.compile(r"(?:results|scripts|tmp|skills)/|[^/]+$")
"""Folders that a program fills, and names directly in the workspace, which is new for each program."""

LISTING_SECONDS = 10.0
"""Seconds that a listing of the sandbox's files may take before a model call."""


async def data_listing(sandbox: Sandbox) -> str:
    """Return the listing of /data; "" if it cannot be made, as the first block then shows the error."""
    command = "python3 -I -m tablereader.list_folder /data"
    try:
        result = await sandbox.arun(command, timeout=LISTING_SECONDS, merge_stderr=False)
    except SandboxError:
        return ""
    return result.output if result.exit_code == 0 else ""


class DataListing:
    """Makes the listing in a sandbox. A listing is made again only when a file has changed.

    Args:
        sandboxes: gives the sandbox.
        home: the workspace on the host. For an empty data/ no sandbox is started.
    """

    def __init__(self, sandboxes: FreshSandboxes[Any], home: Path) -> None:
        self._sandboxes = sandboxes
        self._home = home
        self._known: dict[tuple[object, ...], str] = {}

    async def text(self) -> str:
        """Return the listing; "" for an empty folder, or where no sandbox starts."""
        looks = await asyncio.to_thread(self._looks)
        if not looks:
            return ""
        if looks not in self._known:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            try:
                async with self._sandboxes.one() as sandbox:
                    self._known[looks] = await data_listing(sandbox)
            except SandboxError:
                return ""
        return self._known[looks]

    async def absent(self, named: Sequence[NamedPath]) -> list[str]:
        """Return the paths that do not exist.

        Paths in the folders that the program fills are not checked: files that an earlier program left there
        are put there only when the next program starts.
        """
        below = [each for each in named if not _FILLED.match(_relative(each))]
        # A sandbox is needed only for paths that the host does not see, such as a link.
        unseen = await asyncio.to_thread(self._unseen, below) if below else []
        if not unseen:
            return []
        try:
            async with self._sandboxes.one() as sandbox:
                return await absent(sandbox, unseen)
        except SandboxError:
            return []

    def _unseen(self, named: Sequence[NamedPath]) -> list[NamedPath]:
        files = [f"{path}/" for path in listing(self._home)]
        paths = [(each, f"{_relative(each)}/") for each in named]
        return [each for each, path in paths if not any(file.startswith(path) for file in files)]

    def _looks(self) -> tuple[object, ...]:
        """Return the state of the folder, seen from the host, as a key of the cache."""
        files = listing(self._home)
        return tuple(
            (path, *state)
            for path, state in sorted(files.items())
            if path.startswith("data/") and not path.endswith("/.gitkeep")
        )


def _relative(named: NamedPath) -> str:
    """Return a path relative to the workspace."""
    return posixpath.normpath(named.path).lstrip("/").removeprefix("workspace/")


class ListingState(AgentState[Any]):
    data_listing: NotRequired[Annotated[str, PrivateStateAttr]]
    """The listing at the begin of the run."""


class ShowsData(AddsSection[ListingState]):
    """Puts the listing into the system prompt."""

    state_schema = ListingState

    def __init__(self, data: DataListing) -> None:
        super().__init__()
        self._data = data

    async def abefore_agent(self, state: ListingState, runtime: Runtime[Any]) -> dict[str, Any]:  # noqa: ARG002
        """List the folder when a run begins."""
        return {"data_listing": await self._data.text()}

    def before_agent(self, state: ListingState, runtime: Runtime[Any]) -> dict[str, Any]:
        """As `abefore_agent`."""
        return blocking(self.abefore_agent)(state, runtime)

    def section(self, state: Any) -> str:
        listed = state.get("data_listing")
        return exec_prompt.data_section(listed) if listed else ""
