"""The file routes of servers in this process, without their guards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx
from starlette.applications import Starlette

from agent.run import Runtime, open_runtime
from agent.server.routes.files import file_routes
from libs.sandbox.host import ChannelSandbox

__all__ = ["FileServer", "file_server"]


class FileServer:
    """Requests about the files of one thread."""

    def __init__(self, runtime: Runtime, http: httpx.AsyncClient) -> None:
        self._runtime = runtime
        self._http = http

    async def get(self, part: str, **query: Any) -> httpx.Response:
        return await self._http.get(f"/files/t/{part}", params=query)

    async def put(self, path: str, content: bytes, **query: str) -> httpx.Response:
        headers = {"content-type": "application/octet-stream"}
        asked = {"path": path, **query}
        return await self._http.put("/files/t/content", params=asked, content=content, headers=headers)

    @property
    def sandbox(self) -> ChannelSandbox:
        """The sandbox of the thread."""
        return self._runtime.computer.sandbox_of("t")


@asynccontextmanager
async def file_server(**settings: Any) -> AsyncIterator[FileServer]:
    """Open a server in the working directory."""
    async with open_runtime(asks_model=False, **settings) as runtime:
        app = Starlette(routes=file_routes.ROUTES)
        app.state.runs = SimpleNamespace(runtime=runtime)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
            yield FileServer(runtime, http)
