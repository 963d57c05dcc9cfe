"""One question to a provider's web interface, and everything that may become of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from libs.gateway.search.provider import SearchError

__all__ = ["TIMEOUT", "Failure", "WebApi"]

TIMEOUT = 15.0
"""Seconds for a question, connection and answer together."""

MAX_ANSWER = 5 * 2**20

Failure = Callable[[int, httpx.Headers, dict[str, Any]], SearchError]
"""Makes an error of a status other than 200, its headers, and its body if that is a JSON object."""


class WebApi:
    """A server that answers GET with a JSON object. Follows no redirect: a key would go along.

    Goes through the proxy of the host's environment, and trusts the certificates of the system beside those
    of certifi.
    """

    def __init__(self, name: str, setting: str, *, headers: Mapping[str, str] = {}) -> None:
        """`setting`: the variable to look at when it does not answer."""
        self.name = name
        self._setting = setting
        trusted = httpx.create_ssl_context()
        trusted.load_default_certs()
        self._client = httpx.AsyncClient(
            verify=trusted,
            headers={"Accept": "application/json", **headers},
            timeout=httpx.Timeout(TIMEOUT),
            follow_redirects=False,
        )

    async def get(self, url: str, parameters: Mapping[str, str | int], failure: Failure) -> dict[str, Any]:
        """The JSON object that the server answers with.

        Raises:
            SearchError: what `failure` makes of a status other than 200; it cannot be reached, takes over 15
                seconds, or answers with over 5 MB or with something else than a JSON object.
        """
        try:
            async with (
                asyncio.timeout(TIMEOUT),
                self._client.stream("GET", url, params=dict(parameters)) as response,
            ):
                content = await self._content(response)
        except (TimeoutError, httpx.TimeoutException):
            raise SearchError(f"{self.name} did not answer within {TIMEOUT:g} seconds.", 504) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise SearchError(
                f"{self.name} cannot be reached ({_reason(error)}): look at {self._setting} and the network "
                "of this machine.",
                502,
            ) from None
        found = _object(content)
        if response.status_code != httpx.codes.OK:
            raise failure(response.status_code, response.headers, found or {})
        if found is None:
            raise self.malformed("no JSON object")
        return found

    def malformed(self, what: str) -> SearchError:
        return SearchError(f"{self.name} answers with {what}: is it what {self._setting} is meant for?", 502)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _content(self, response: httpx.Response) -> bytes:
        content = bytearray()
        async for part in response.aiter_bytes():
            content += part
            if len(content) > MAX_ANSWER:
                raise self.malformed(f"over {MAX_ANSWER >> 20} MB")
        return bytes(content)


def _object(content: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _reason(error: Exception) -> str:
    """The kind of error alone: a message may have the URL in it, and a password in that."""
    return {
        "ConnectError": "no connection",
        "ProxyError": "the proxy of this machine refuses",
        "RemoteProtocolError": "no valid HTTP",
        "ReadError": "it broke off",
        "DecodingError": "its compression is broken",
    }.get(type(error).__name__, type(error).__name__)
