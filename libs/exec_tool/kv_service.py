"""The virtual host `http://kv.gateway/`: a key-value store for the programs of a thread.

`GET /key`, `PUT /key`, `DELETE /key`; `GET /` lists the keys. Values are JSON. The host knows the thread of a
sandbox; no request from inside can choose another thread.
"""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import unquote

from libs.gateway import GatewayError, ServiceRequest, ServiceResponse
from libs.persistence.thread_store import ThreadStore

__all__ = ["HOST", "KvService"]

HOST: Final = "kv.gateway"


class KvService:
    """Implements `libs.gateway.gateway_protocol.Service`."""

    def __init__(self, values: ThreadStore) -> None:
        self._values = values

    async def __call__(self, request: ServiceRequest) -> ServiceResponse:
        thread = request.client.thread
        if not thread:
            raise GatewayError(403, "there is no thread here whose values could be kept")
        try:
            name = unquote(request.path.removeprefix("/"), errors="strict")
        except UnicodeDecodeError:
            raise GatewayError(400, "the name is not UTF-8") from None
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
                    unreadable = isinstance(error, json.JSONDecodeError | UnicodeDecodeError)
                    why = "the value is not JSON in UTF-8" if unreadable else str(error)
                    raise GatewayError(400, why) from None
                return ServiceResponse(200, b"{}")
            case "DELETE":
                return (
                    ServiceResponse(200, b"{}") if await self._values.delete(thread, name) else _missing(name)
                )
        raise GatewayError(405, "GET, PUT and DELETE are all there is")


def _missing(name: str) -> ServiceResponse:
    return ServiceResponse(404, json.dumps({"error": f"there is no {name[:80]!r}"}).encode())
