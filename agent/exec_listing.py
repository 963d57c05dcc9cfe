"""What is in data/, for the model of the one-tool agent: it writes a whole program without another look."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
)
from langchain_core.messages import SystemMessage
from langgraph.runtime import Runtime

from agent import exec_prompt
from agent.listing import data_listing
from agent.produced import listing
from libs.sandbox import SandboxError
from libs.sandbox.blocking import blocking
from libs.sandbox.fresh import FreshSandboxes

__all__ = ["DataListing", "ShowsData"]

_MOST_KEPT = 32
"""Listings that are kept, by what the folder looked like from the host."""


class DataListing:
    """Makes the listing in a sandbox of its own; again only where a file has changed since.

    Args:
        sandboxes: gives it.
        home: the workspace on the host: nothing is started for an empty folder.
    """

    def __init__(self, sandboxes: FreshSandboxes[Any], home: Path) -> None:
        self._sandboxes = sandboxes
        self._home = home
        self._known: dict[tuple[object, ...], str] = {}

    async def text(self) -> str:
        """The listing; "" where there is nothing, or none can be had: the program then says what is wrong."""
        looks = await asyncio.to_thread(self._looks)
        if not looks:
            return ""
        if looks not in self._known:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            try:
                async with self._sandboxes.aone() as sandbox:
                    self._known[looks] = await data_listing(sandbox)
            except SandboxError:
                return ""
        return self._known[looks]

    def _looks(self) -> tuple[object, ...]:
        """What tells one state of the folder from another, seen from the host."""
        files = listing(self._home)
        return tuple(
            (path, *state)
            for path, state in sorted(files.items())
            if path.startswith("data/") and not path.endswith("/.gitkeep")
        )


class ListingState(AgentState[Any]):
    data_listing: NotRequired[Annotated[str, PrivateStateAttr]]
    """As it was when the run began."""


class ShowsData(AgentMiddleware[ListingState, Any, Any]):
    """Puts the listing into the system prompt."""

    state_schema = ListingState

    def __init__(self, data: DataListing) -> None:
        super().__init__()
        self._data = data

    async def abefore_agent(self, state: ListingState, runtime: Runtime[Any]) -> dict[str, Any]:  # noqa: ARG002
        """Look at the folder when a run begins."""
        return {"data_listing": await self._data.text()}

    def before_agent(self, state: ListingState, runtime: Runtime[Any]) -> dict[str, Any]:
        """As `abefore_agent`."""
        return blocking(lambda _: self.abefore_agent(state, runtime))(None)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Show it."""
        return handler(_with_listing(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """As `wrap_model_call`."""
        return await handler(_with_listing(request))


def _with_listing(request: ModelRequest[Any]) -> ModelRequest[Any]:
    listed = request.state.get("data_listing")
    if not listed:
        return request
    before = request.system_message.text if request.system_message else ""
    text = f"{before}\n\n{exec_prompt.data_section(str(listed))}".strip()
    return request.override(system_message=SystemMessage(text))
