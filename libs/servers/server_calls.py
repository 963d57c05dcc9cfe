"""The virtual host `http://servers.gateway/`, which carries calls of programs to MCP servers.

`POST /call` with `{"server", "tool", "arguments"}`: see `as_json` for the answer. Errors are a text with a
status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from libs.gateway import GatewayError, ProgramLeft, ServiceRequest, ServiceResponse
from libs.servers.server_answers import Answer, CallFailed, as_json
from libs.servers.servers import Servers
from libs.servers.stubs import declaration

__all__ = ["HOST", "ServerCalls"]

HOST: Final = "servers.gateway"


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    server: str
    tool: str
    arguments: dict[str, Any]


class ServerCalls:
    """Implements `libs.gateway.gateway_protocol.Service`.

    A tool is called if it is free, or if the command of the calling program has declared the tool and still
    runs. What is declared is approved with the command.

    Args:
        servers: the servers.
        ruled: returns what the rules file says about a tool, given as `server.tool`; "" if it says nothing.
            Must be quick.
        redact: removes known secrets from results.
    """

    def __init__(
        self,
        servers: Servers,
        ruled: Callable[[str], Literal["allow", "ask", "deny", ""]] = lambda _: "",
        redact: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._servers = servers
        self._ruled = ruled
        self._redact = redact or bytes

    async def __call__(self, request: ServiceRequest) -> ServiceResponse:
        if (request.method, request.path) != ("POST", "/call"):
            raise GatewayError(404, "POST /call is all there is")
        try:
            asked = _Asked.model_validate_json(request.body)
        except ValidationError:
            raise GatewayError(
                400, 'the body is not {"server": text, "tool": text, "arguments": object}'
            ) from None
        try:
            await self._check(asked, request)
            return await self._called(asked, request)
        except CallFailed as error:
            raise GatewayError(502, self._redact(f"{error}.".encode()).decode(errors="replace")) from None

    async def _called(self, asked: _Asked, request: ServiceRequest) -> ServiceResponse:
        work = asyncio.ensure_future(
            self._servers.call(asked.server, asked.tool, asked.arguments, self._content)
        )
        left = asyncio.ensure_future(request.left())
        try:
            await asyncio.wait({work, left}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise ProgramLeft("the program has ended")
            return ServiceResponse(200, await work)
        finally:
            left.cancel()
            work.cancel()
            await asyncio.wait({work, left})

    def _content(self, answer: Answer) -> bytes:
        return self._redact(as_json(answer))

    async def _check(self, asked: _Asked, request: ServiceRequest) -> None:
        """Raise GatewayError if the program may not call the tool, and CallFailed if nobody can."""
        line = declaration(asked.server, asked.tool)
        name = line.removeprefix("# uses: ")
        ruled = self._ruled(name)
        if ruled == "deny":
            raise GatewayError(403, "a rule of this installation denies it. Do not call it again.")
        free = await self._servers.is_free(asked.server, asked.tool)
        if (free and ruled != "ask") or name in request.client.declared():
            return
        raise GatewayError(
            403,
            "this code has not declared the call, or has ended. Put this line first, before any code, into "
            f"the command, block or program itself (not into a file that it runs): {line}",
        )
