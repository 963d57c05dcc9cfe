"""Sends one request to the web API of a provider, and turns every failure into a SearchError."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from libs.gateway.search.search_contract import SearchError, SearchProvider

__all__ = ["TIMEOUT", "Failure", "WebApi"]

TIMEOUT = 15.0
"""Seconds for a request, connection and answer together."""

MAX_ANSWER = 5 * 2**20

Failure = Callable[[int, httpx.Headers, dict[str, Any]], SearchError]
"""Makes the error for a status other than 200, with its headers and its JSON object, if any."""


class WebApi(SearchProvider):
    """A provider whose server answers GET with a JSON object.

    Follows no redirect, because the key would be sent along. Uses the proxy of the host's environment, and
    trusts the certificates of the system and of certifi.
    """

    def __init__(self, title: str, setting: str, *, headers: Mapping[str, str] = {}) -> None:
        """`title` and `setting`: the server and the variable to name in errors."""
        self._title = title
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
        """Return the JSON object of the answer.

        Raises:
            SearchError: `failure` for a status other than 200; no connection, over 15 seconds, over 5 MB,
                or no JSON object.
        """
        try:
            async with (
                asyncio.timeout(TIMEOUT),
                self._client.stream("GET", url, params=dict(parameters)) as response,
            ):
                content = await self._content(response)
        except (TimeoutError, httpx.TimeoutException):
            raise SearchError(f"{self._title} did not answer within {TIMEOUT:g} seconds.", 504) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise SearchError(
                # Only the kind of the error: its message may contain a URL with a password.
                f"{self._title} cannot be reached ({type(error).__name__}): look at {self._setting} and the "
                "network of this machine.",
                502,
            ) from None
        found = _object(content)
        if response.status_code != httpx.codes.OK:
            raise failure(response.status_code, response.headers, found or {})
        if found is None:
            raise self.malformed("no JSON object")
        return found

    def malformed(self, answer: str) -> SearchError:
        return SearchError(
            f"{self._title} answers with {answer}: is it what {self._setting} is meant for?", 502
        )

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
