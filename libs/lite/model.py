"""The model: one request of OpenAI's chat completions, over HTTP as it is documented."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from libs.lite.errors import LiteError
from libs.lite.protocol import InvalidOutput

__all__ = ["OPENAI", "LiteModel", "ModelFailed"]

OPENAI = "https://api.openai.com/v1"
_MAX_REASON = 300
_DISPENSABLE: Mapping[str, str | None] = {"temperature": None, "max_tokens": "max_completion_tokens"}
"""Options that some models refuse -> their other name, where they have one."""


class ModelFailed(LiteError):
    """The model could not be asked, or did not answer."""


class LiteModel:
    """A model behind an OpenAI-compatible server. Keeps nothing of a conversation; usable by many at once.

    Args:
        client: carries the requests; whoever made it closes it.
        name: the model to ask for.
        base_url: where `/chat/completions` is.
        api_key: sent as a bearer token; None: the server needs none.
        seconds: that one answer may take.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        *,
        name: str,
        base_url: str = OPENAI,
        api_key: str | None = None,
        seconds: float = 60,
    ) -> None:
        self._client = client
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._key = api_key
        self._seconds = seconds
        self._options: dict[str, Any] = {"model": name, "temperature": 0, "max_tokens": 600}

    async def __call__(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The model's reply to a conversation.

        An option that the model refuses by name is left out from then on, or sent under its other name:
        reasoning models know neither a temperature nor `max_tokens`.

        Raises:
            ModelFailed: no connection, no answer in time, a status that is none of success, or a body that
                is no chat completion. The message never holds the key.
            InvalidOutput: the model has said nothing.
        """
        while True:
            options = self._options
            response = await self._post({**options, "messages": list(messages)})
            refused = _refused_option(response)
            if refused not in options or refused not in _DISPENSABLE:
                break
            self._options = _without(refused, self._options)
        if not response.is_success:
            raise ModelFailed(self._without_key(_status(response)))
        try:
            content = response.json()["choices"][0]["message"]["content"]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise ModelFailed("Model error: what the server answered is no chat completion") from None
        if not isinstance(content, str):
            raise InvalidOutput
        return content

    async def _post(self, body: Mapping[str, Any]) -> httpx.Response:
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        content = json.dumps(body)  # all of it ASCII: half of a surrogate pair can be sent, too
        try:
            async with asyncio.timeout(self._seconds):
                return await self._client.post(self._url, content=content, headers=headers)
        except (TimeoutError, httpx.TimeoutException):
            raise ModelFailed(f"Model error: no answer within {self._seconds:g} seconds") from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            # What a library says may hold the address, and that a password: its kind has to do.
            raise ModelFailed(f"Model error: it could not be asked ({type(error).__name__})") from None

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "[REDACTED]") if self._key else text


def _error(response: httpx.Response) -> Mapping[str, Any]:
    try:
        error = response.json()["error"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}
    return error if isinstance(error, dict) else {"message": error}


def _without(option: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as they are sent to a model that refuses one of them."""
    kept = {name: value for name, value in options.items() if name != option}
    if option in options and (other := _DISPENSABLE[option]):
        kept[other] = options[option]
    return kept


def _refused_option(response: httpx.Response) -> str:
    """The option that a server says it does not take; "" where it refuses nothing, or something else."""
    return str(_error(response).get("param", "")) if response.status_code == 400 else ""


def _status(response: httpx.Response) -> str:
    status = f"Model error: the server answered {response.status_code} {response.reason_phrase}".rstrip()
    if response.status_code in (401, 403):
        # What such an answer says often repeats parts of the key.
        return f"{status}: check OPENAI_API_KEY"
    said = _error(response).get("message")
    return f"{status}: {said[:_MAX_REASON]}" if isinstance(said, str) else status
