"""Implements the methods of the Agent Client Protocol that an editor calls."""

from __future__ import annotations

import asyncio
import logging
import uuid
from contextlib import AsyncExitStack
from importlib import import_module
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
    from agent.acp.acp_session import Session
    from agent.acp.acp_tasks import PromptBlock
    from agent.run import Runtime

__all__ = ["EditorAgent"]

logger = logging.getLogger(__name__)

_NOT_FOUND, _INVALID_PARAMS = -32002, -32602


class EditorAgent:
    """Implements `acp.Agent`. Each session of the editor is a thread.

    `initialize` answers before heavy modules are imported. An error such as a wrong setting is reported
    when a session is opened or prompted, and checked again each time.
    """

    def __init__(self) -> None:
        self._client: Client
        self._open = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._runtime: Runtime | None = None
        self._sessions: dict[str, Session] = {}

    def on_connect(self, conn: Client) -> None:
        """Keep the connection to the editor."""
        self._client = conn

    async def close(self) -> None:
        """Close the runtime and its sandbox. The turns of the sessions have ended with the connection."""
        await self._open.aclose()

    async def initialize(
        self,
        protocol_version: int,  # noqa: ARG002 - an editor with another version disconnects
        client_capabilities: ClientCapabilities | None = None,  # noqa: ARG002 - none is needed
        client_info: Implementation | None = None,
        **_: Any,
    ) -> InitializeResponse:
        """Return the capabilities of this agent."""
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
        """Refuse: keys of models are settings, so there is nothing to sign in to."""
        raise RequestError(
            _INVALID_PARAMS, f"There is no way to sign in named {method_id!r}: none is needed."
        )

    async def new_session(
        self, cwd: str, mcp_servers: list[Any] | None = None, **_: Any
    ) -> NewSessionResponse:
        """Begin a thread, which is saved from its first prompt on."""
        session_id = uuid.uuid4().hex
        await self._session(session_id, cwd, mcp_servers)
        return NewSessionResponse(session_id=session_id)

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: list[Any] | None = None, **_: Any
    ) -> LoadSessionResponse:
        """Load a thread, also of `code-agent run`, and send its messages."""
        if session_id not in self._sessions:
            runtime = await self._shared()
            from agent.run import agent_of
            from agent.threads import place

            if await agent_of(runtime.threads, session_id) is None:
                where = place(runtime.settings)
                raise RequestError(_NOT_FOUND, f"There is no session {session_id!r} in {where}: begin one.")
        session = await self._session(session_id, cwd, mcp_servers)
        await session.load()
        return LoadSessionResponse()

    async def prompt(self, session_id: str, prompt: list[PromptBlock], **_: Any) -> PromptResponse:
        """Carry out the person's task."""
        from agent.acp.acp_tasks import task_of

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
        runtime = await self._shared()
        from agent.acp.acp_session import Session

        if not Path(cwd).is_absolute():
            raise RequestError(_INVALID_PARAMS, f"cwd {cwd!r} is not an absolute path.")
        if mcp_servers:
            logger.warning("tools of MCP servers are not used: the agent works in its sandbox alone")
        logger.info("the agent works in %s", runtime.settings.workspace_dir.absolute())
        if session_id not in self._sessions:
            folder = await runtime.folder_of(session_id)
            made = Session(session_id, runtime, self._client, folder)
            return self._sessions.setdefault(session_id, made)
        return self._sessions[session_id]

    async def _shared(self) -> Runtime:
        async with self._opening:
            if self._runtime is None:
                # In a thread, because the imports take seconds and the event loop must answer.
                await asyncio.to_thread(import_module, "agent.acp.acp_session")
                from agent.acp.acp_errors import as_request_errors
                from agent.run import open_runtime

                with as_request_errors():
                    self._runtime = await self._open.enter_async_context(open_runtime())
        return self._runtime
