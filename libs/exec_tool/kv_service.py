"""The virtual host `http://kv.gateway/`: values that a thread's programs keep from one execution to the next.

`GET /key`, `PUT /key`, `DELETE /key`; `GET /` lists the keys. Values are JSON. Whose they are the host knows:
a sandbox was given a thread when it was taken, and nothing that comes from inside has a say in it.
"""

from __future__ import annotations

import json
from typing import Final, Protocol
from urllib.parse import unquote

from libs.gateway.errors import GatewayError
from libs.gateway.protocol import ServiceRequest, ServiceResponse

__all__ = ["HOST", "KvService", "Values"]

HOST: Final = "kv.gateway"


class Values(Protocol):
    """Keeps them: `libs.persistence.thread_store.ThreadStore`."""

    async def get(self, thread: str, name: str) -> str | None: ...
    async def put(self, thread: str, name: str, value: str) -> None:
        """Raises ValueError for what is no JSON, or too much."""
        ...

    async def delete(self, thread: str, name: str) -> bool: ...
    async def names(self, thread: str) -> list[str]: ...


class KvService:
    """Answers; implements `libs.gateway.protocol.Service`."""

    def __init__(self, values: Values) -> None:
        self._values = values

    async def __call__(self, request: ServiceRequest) -> ServiceResponse:
        thread = request.client.thread
        if not thread:
            raise GatewayError(403, "there is no thread here whose values could be kept")
        name = unquote(request.path.removeprefix("/"), errors="replace")
        match request.method:
            case "GET" if not name:
                return ServiceResponse(200, json.dumps(await self._values.names(thread)).encode())
            case "GET":
                value = await self._values.get(thread, name)
                return _missing(name) if value is None else ServiceResponse(200, value.encode())
            case "PUT":
                try:
                    await self._values.put(thread, name, request.body.decode())
                except ValueError as error:
                    why = "the value is no JSON in UTF-8" if _is_reading(error) else str(error)
                    raise GatewayError(400, why) from None
                return ServiceResponse(200, b"{}")
            case "DELETE":
                return (
                    ServiceResponse(200, b"{}") if await self._values.delete(thread, name) else _missing(name)
                )
        raise GatewayError(405, "GET, PUT and DELETE are all there is")


def _missing(name: str) -> ServiceResponse:
    return ServiceResponse(404, json.dumps({"error": f"there is no {name[:80]!r}"}).encode())


def _is_reading(error: ValueError) -> bool:
    return isinstance(error, json.JSONDecodeError | UnicodeDecodeError)
