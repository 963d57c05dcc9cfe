"""The methods of the protocol that an editor calls."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acp.exceptions import RequestError
from acp.interfaces import Client
from acp.meta import PROTOCOL_VERSION
from acp.schema import (
    AgentCapabilities,
    AuthenticateResponse,
    ClientCapabilities,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
)

if TYPE_CHECKING:
    from agent.acp.prompts import PromptBlock
    from agent.acp.session import Session
    from agent.installation import Installation

__all__ = ["EditorAgent"]

logger = logging.getLogger(__name__)

_NOT_FOUND, _INVALID_PARAMS = -32002, -32602


class EditorAgent:
    """Implements `acp.Agent`: as many sessions as an editor opens, each a thread of its own.

    `initialize` answers before anything heavy is imported. What keeps the rest from working, such as a bad
    setting, is said where a session is opened or prompted, and looked at anew each time.
    """

    def __init__(self) -> None:
        self._client: Client
        self._open = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._installation: Installation | None = None
        self._sessions: dict[str, Session] = {}

    def on_connect(self, conn: Client) -> None:
        """Keep the connection to the editor."""
        self._client = conn

    async def close(self) -> None:
        """End what sessions share, the sandbox too. Their turns have ended with the connection."""
        await self._open.aclose()

    async def initialize(
        self,
        protocol_version: int,  # noqa: ARG002 - there is one; an editor that wants another goes away
        client_capabilities: ClientCapabilities | None = None,  # noqa: ARG002 - none is needed
        client_info: Implementation | None = None,
        **_: Any,
    ) -> InitializeResponse:
        """Say what this agent can do."""
        if client_info:
            logger.info("client: %s %s", client_info.name, client_info.version)
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=True, prompt_capabilities=PromptCapabilities(embedded_context=True)
            ),
            auth_methods=[],
            agent_info=Implementation(
                name="code-agent", title="Code Execution Agent", version=version("code-execution-agent")
            ),
        )

    async def authenticate(self, method_id: str, **_: Any) -> AuthenticateResponse:
        """There is nothing to sign in to: keys of models are settings."""
        raise RequestError(
            _INVALID_PARAMS, f"There is no way to sign in named {method_id!r}: none is needed."
        )

    async def new_session(
        self, cwd: str, mcp_servers: list[Any] | None = None, **_: Any
    ) -> NewSessionResponse:
        """Begin a thread. It is kept from its first prompt on."""
        session_id = uuid.uuid4().hex
        await self._session(session_id, cwd, mcp_servers)
        return NewSessionResponse(session_id=session_id)

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: list[Any] | None = None, **_: Any
    ) -> LoadSessionResponse:
        """Go on with a thread, one of `code-agent run` too; what was said in it is sent first."""
        if session_id not in self._sessions:
            installation = await self._shared()
            from agent.threads import place

            if not await installation.exists(session_id):
                where = place(installation.settings)
                raise RequestError(_NOT_FOUND, f"There is no session {session_id!r} in {where}: begin one.")
        session = await self._session(session_id, cwd, mcp_servers)
        await session.load()
        return LoadSessionResponse()

    async def prompt(self, session_id: str, prompt: list[PromptBlock], **_: Any) -> PromptResponse:
        """Carry out what the person asks for."""
        from agent.acp.prompts import task_of

        session = self._sessions.get(session_id)
        if session is None:
            raise RequestError(_NOT_FOUND, f"There is no session {session_id!r}: begin or load one first.")
        workspace = (await self._shared()).settings.workspace_of(session_id)
        task = await asyncio.to_thread(task_of, prompt, workspace)
        return PromptResponse(stop_reason=await session.turn(task))

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop the turn of a session."""
        if session := self._sessions.get(session_id):
            session.cancel()

    async def _session(self, session_id: str, cwd: str, mcp_servers: list[Any] | None) -> Session:
        installation = await self._shared()
        from agent.acp.session import Session

        if not Path(cwd).is_absolute():
            raise RequestError(_INVALID_PARAMS, f"cwd must be an absolute path, and {cwd!r} is none.")
        if mcp_servers:
            logger.warning("tools of MCP servers are not used: the agent works in its sandbox alone")
        logger.info("the agent works in %s", installation.settings.workspace_dir.absolute())
        if session_id not in self._sessions:
            self._sessions[session_id] = Session(session_id, installation, self._client)
        return self._sessions[session_id]

    async def _shared(self) -> Installation:
        async with self._opening:
            if self._installation is None:
                # Seconds of imports: not on the event loop, which goes on answering.
                opened = await asyncio.to_thread(_opener)
                self._installation = await opened(self._open)
        return self._installation


def _opener() -> Callable[[AsyncExitStack], Awaitable[Installation]]:
    from agent.acp.errors import as_request_errors
    from agent.installation import open_installation

    async def opened(stack: AsyncExitStack) -> Installation:
        with as_request_errors():
            return await stack.enter_async_context(open_installation())

    return opened
