"""Keeps one MCP server connected, in a thread of its own, so that a flood delays only this server's calls."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any, Final, TypeVar

import httpx2
from mcp import Client, MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    CallToolResult,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ToolListChangedNotification,
)
from pydantic import ValidationError

from libs.sandbox import SandboxError
from libs.sandbox.host import LoopThread
from libs.servers.sandbox_program import MakeSandbox
from libs.servers.server_answers import Answer, CallFailed, Listing, answer_of, listing_of
from libs.servers.server_config import ServerConfig
from libs.servers.server_log import ServerLog
from libs.servers.server_transport import transport_to

__all__ = ["CALL_SECONDS", "CONNECT_SECONDS", "Connection"]

logger = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 60.0
"""Longest start of a server, with its lists."""
INSTALL_SECONDS: Final = 600.0
"""Longest start of a server in a sandbox, which installs the server at the first start."""
CALL_SECONDS: Final = 120.0
"""Longest call."""
PROBE_SECONDS: Final = 10.0
"""Longest answer of a server that has let a call time out. A slower one is ended, and started again. After a
cancelled call, a server has the rest of CALL_SECONDS, too."""
_CLOSE_SECONDS: Final = 10.0
_SESSION_CODES: Final = (INVALID_REQUEST, -32001, CONNECTION_CLOSED)
"""Codes with which servers refuse a session that they do not know. Each has other meanings, too."""
_MOST_STARTS: Final = 3
"""How often the lists are asked for again after the server has ended meanwhile."""
_CHANGES: Final = (
    ToolListChangedNotification,
    PromptListChangedNotification,
    ResourceListChangedNotification,
)
_ERRORS: Final = (
    MCPError,
    OSError,
    httpx2.HTTPError,
    ValueError,
    RuntimeError,
    SandboxError,
)
"""What the SDK and its transports raise for a server that is gone or breaks the protocol."""

Result = TypeVar("Result")


class _ServerGone(CallFailed):
    """The connection had ended before the call was sent."""


class Connection:
    """One server. Connects at its first use, and again if the server has ended. For any event loop."""

    def __init__(
        self, config: ServerConfig, log: ServerLog, make: MakeSandbox, changed: Callable[[], object]
    ) -> None:
        """Create the object.

        Args:
            config: how to reach the server.
            log: of the errors that a program prints.
            make: makes the sandbox of a server that runs in one.
            changed: called when the server may have other lists. It must not block.
        """
        self.config = config
        self.log = log
        self._make = make
        self._changed = changed
        self._thread: LoopThread | None = None
        self._ready: asyncio.Future[Client] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._ended: asyncio.Event | None = None
        self._probe: asyncio.Task[None] | None = None
        self._connected_before = False
        self._start_seconds = INSTALL_SECONDS if config.sandbox else CONNECT_SECONDS

    async def listing(self) -> Listing:
        """Return what the server says of itself.

        Raises:
            CallFailed: the server cannot be reached, or sends something else.
        """
        return await self._run(self._listing)

    async def call(self, tool: str, arguments: dict[str, Any], then: Callable[[Answer], Result]) -> Result:
        """Call a tool, or one of `stubs.METHODS`. Cancelling tells the server.

        Args:
            tool: its name.
            arguments: its arguments.
            then: what becomes of the answer, in the thread of this server, because that can take seconds.

        Raises:
            CallFailed: the server has ended, does not answer in time, refuses the call or answers nonsense.
        """

        async def work() -> Result:
            try:
                return then(await self._call(tool, arguments))
            except _ServerGone:  # nothing was sent
                return then(await self._call(tool, arguments))

        return await self._run(work)

    def close(self) -> None:
        """End the connection, and the server's process. Blocks for at most some seconds."""
        if (thread := self._thread) is None:
            return
        with suppress(TimeoutError):
            thread.wait(self._close())

    # -- on the loop of the connection

    async def _run(self, work: Callable[[], Awaitable[Result]]) -> Result:
        if self._thread is None:
            self._thread = LoopThread(f"server-{self.config.name}")

        async def explained() -> Result:
            with _explaining():
                return await work()

        return await self._thread.run(explained())

    async def _listing(self) -> Listing:
        try:
            async with asyncio.timeout(self._start_seconds):
                for _ in range(_MOST_STARTS):
                    client, ended = await self._client(), self._ended
                    try:
                        return await listing_of(client)
                    except MCPError as error:
                        if not (_is_lost(error) or await _refuses_all(client, error)):
                            raise
                        await self._drop(ended)  # perhaps a call has ended the server meanwhile
                return await listing_of(await self._client())
        except TimeoutError:
            raise CallFailed(f"the server has not become ready within {self._start_seconds:g} s") from None

    async def _call(self, tool: str, arguments: dict[str, Any]) -> Answer:
        client, ended, begun = await self._client(), self._ended, time.monotonic()
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await answer_of(client, tool, arguments)
        except asyncio.CancelledError:
            # Programs often end earlier than their calls, so nobody may ever wait until a call times out.
            if self._probe is None or self._probe.done():
                left = max(0.0, begun + CALL_SECONDS - time.monotonic())
                self._probe = asyncio.create_task(self._end_if_stuck(client, ended, left + PROBE_SECONDS))
            raise
        except TimeoutError:
            await self._end_if_stuck(client, ended, PROBE_SECONDS)
            raise CallFailed(f"{tool} has not answered within {CALL_SECONDS:g} s") from None
        except MCPError as error:
            gone = ended is not None and ended.is_set()
            if await _refuses_all(client, error):
                await self._drop(ended)  # presumably the server answered before it looked at the call
                raise _ServerGone(_why(error)) from None
            if gone or _is_lost(error):
                await self._drop(ended)
                raise CallFailed(
                    f"the server ended during the call of {tool}, so nobody knows whether the call was "
                    "carried out. The next call starts the server again"
                ) from None
            raise

    async def _end_if_stuck(self, client: Client, ended: asyncio.Event | None, seconds: float) -> None:
        """End a connection that answers nothing at all in some seconds. An endless answer would block it."""
        try:
            async with asyncio.timeout(seconds):
                await client.list_tools()
        except _ERRORS as error:
            if not isinstance(error, MCPError) or _is_lost(error):
                await self._drop(ended)

    async def _client(self) -> Client:
        """Return the connected client. Connects if there is none, or if the server has ended."""
        if self._ended is not None and self._ended.is_set():
            await self._drop(self._ended)
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._ended = asyncio.Event()
            self._keeper = asyncio.create_task(self._keep(self._ready, self._ended))
        return await asyncio.shield(self._ready)

    async def _keep(self, ready: asyncio.Future[Client], ended: asyncio.Event) -> None:
        """Hold the connection. One task enters and leaves it, as the client needs."""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._start_seconds):
                    client = await stack.enter_async_context(
                        Client(
                            transport_to(self.config, ended, self.log, self._make),
                            cache=None,
                            message_handler=self._on_message,
                        )
                    )
                client.session.validate_tool_result = _unchecked  # type: ignore[method-assign]
                ready.set_result(client)
                if self._connected_before:
                    self._changed()
                self._connected_before = True
                await ended.wait()
        except BaseException as error:
            ended.set()
            if not ready.done():
                ready.set_exception(error if isinstance(error, Exception) else CallFailed("it was closed"))
                ready.exception()  # is retrieved, even if the caller was cancelled
            elif isinstance(error, Exception):
                logger.debug("the connection to the server %s broke off: %r", self.config.name, error)
            if isinstance(error, asyncio.CancelledError):
                raise

    async def _on_message(self, message: object) -> None:
        if isinstance(message, _CHANGES):
            self._changed()

    async def _drop(self, which: asyncio.Event | None) -> None:
        """Forget the connection with this `_ended`, and end it. There may be another one already."""
        if which is not self._ended:
            return
        keeper, self._keeper, self._ready = self._keeper, None, None
        ended, self._ended = self._ended, None
        if ended is not None:
            ended.set()
        if keeper is not None:
            with suppress(asyncio.CancelledError):
                await asyncio.wait([keeper], timeout=_CLOSE_SECONDS)

    async def _close(self) -> None:
        keeper = self._keeper
        await self._drop(self._ended)
        if keeper is not None and not keeper.done():
            keeper.cancel()
            await asyncio.wait([keeper], timeout=_CLOSE_SECONDS)


async def _unchecked(name: str, result: CallToolResult) -> None:
    """Take a result as it is.

    The SDK would check it against the server's schema. A pattern of a hostile server can take hours for 40
    characters, and Python's `re` stops all threads meanwhile. The package reads results that do not fit.
    """


def _is_lost(error: MCPError) -> bool:
    """Return whether the SDK has noticed the end of the connection. Servers use its code for other errors."""
    return error.code == CONNECTION_CLOSED and error.message.startswith(("Connection closed", "SSE stream "))


async def _refuses_all(client: Client, error: MCPError) -> bool:
    """Return whether a server answers everything with this error, because it does not know the session.

    So do servers over HTTP after a restart.
    """
    if error.code not in _SESSION_CODES or _is_lost(error):
        return False
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await client.list_tools()
    except MCPError as again:
        return (again.code, again.message) == (error.code, error.message)
    except _ERRORS:
        pass
    return False


@contextmanager
def _explaining() -> Iterator[None]:
    """Turn what the SDK and a transport raise into CallFailed."""
    try:
        yield
    except CallFailed:
        raise
    except (*_ERRORS, ExceptionGroup) as error:
        raise CallFailed(_why(error)) from None


def _why(error: BaseException) -> str:
    """Return the reason in words. The texts of servers are kept short."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "the server has not become ready in time"
    if isinstance(error, ValidationError):
        return "the server has answered something that does not follow the protocol"
    if isinstance(error, MCPError) and _is_lost(error):
        return "the server has ended before it was ready"
    if isinstance(error, MCPError):
        return str(error)[:2_000]
    if isinstance(error, httpx2.HTTPStatusError):  # without the URL, which may be a secret
        return f"the server has answered with the HTTP status {error.response.status_code}"
    if isinstance(error, SandboxError):
        return f"its sandbox cannot be used: {error} {error.hint}".rstrip(".")
    return f"the server cannot be reached: {str(error)[:500] or type(error).__name__}"
