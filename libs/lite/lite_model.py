"""The model of run-lite: one request to an OpenAI-compatible chat completions API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from libs.lite.lite_protocol import InvalidOutput, read_reply
from libs.lite.sandbox_path import LiteError
from libs.redaction import MARK

__all__ = ["OPENAI", "LiteModel", "ModelFailed"]

OPENAI = "https://api.openai.com/v1"
_MAX_STATUS = 400
"""Most characters of the text of an error."""
_MOST_TOKENS = 600
"""Tokens of a reply."""
_CUT_OFF = ("length", "content_filter", "tool_calls", "function_call", "error")
"""Values of `finish_reason` of a reply that the server has ended. Servers name other ends as they like."""
_DISPENSABLE: Mapping[str, str | None] = {"temperature": None, "max_tokens": "max_completion_tokens"}
"""Options that some models refuse, each with its other name or None."""


class ModelFailed(LiteError):
    """The request to the model failed."""


class LiteModel:
    """A model behind an OpenAI-compatible server. Keeps no conversation; many callers may share one object.

    Args:
        client: sends the requests; the caller closes the client.
        base_url: address above `/chat/completions`.
        api_key: sent as a bearer token; None where the server needs no key.
        seconds: limit for one answer.
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
        self._options: dict[str, Any] = {"model": name, "temperature": 0, "max_tokens": _MOST_TOKENS}

    async def __call__(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Return the model's reply to a conversation.

        Reasoning models refuse `temperature` and `max_tokens`: later requests leave the option out or use its
        other name.

        Raises:
            ModelFailed: no connection, no answer in time, an error status, a body that is not a chat
                completion, or a refusal of the model. The message never contains the key.
            InvalidOutput: the reply has no text, or the server ended it before the end of its object.
        """
        while True:
            options = self._options
            response = await self._post({**options, "messages": list(messages)})
            refused = str(_error(response).get("param", "")) if response.status_code == 400 else ""
            if refused not in options or refused not in _DISPENSABLE:
                break
            others = {name: value for name, value in options.items() if name != refused}
            other = _DISPENSABLE[refused]
            self._options = {**others, other: options[refused]} if other else others
        if not response.is_success:
            raise self._failed(response)
        try:
            body = response.json()
            choice = body["choices"][0]
            content, end = choice["message"]["content"], choice.get("finish_reason")
            refusal = choice["message"].get("refusal")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            # Some servers report errors of a provider with status 200.
            if _error(response).get("message"):
                raise self._failed(response) from None
            raise ModelFailed("Model error: the server's answer is not a chat completion") from None
        if not content and refusal and isinstance(refusal, str):
            raise self._shown(f"Model error: the model refuses: {refusal}")
        if end in _CUT_OFF and not _is_whole(content):
            raise InvalidOutput(
                _cut(body.get("usage")) if end == "length" else f"the server ended the reply with {end!a:.80}"
            )
        if not isinstance(content, str):
            raise InvalidOutput
        return content

    def _failed(self, response: httpx.Response) -> ModelFailed:
        return self._shown(_status(response, self._key or ""))

    def _shown(self, text: str) -> ModelFailed:
        # Cut at the end: a cut within the key would leave a part of it.
        return ModelFailed((text.replace(self._key, MARK.decode()) if self._key else text)[:_MAX_STATUS])

    async def _post(self, body: Mapping[str, Any]) -> httpx.Response:
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        content = json.dumps(body)  # ASCII, so half of a surrogate pair can be sent
        try:
            async with asyncio.timeout(self._seconds):
                return await self._client.post(self._url, content=content, headers=headers)
        except (TimeoutError, httpx.TimeoutException):
            raise ModelFailed(f"Model error: no answer within {self._seconds:g} seconds") from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            # The message of a library may contain the address with a password, so only the type is shown.
            raise ModelFailed(f"Model error: the request failed ({type(error).__name__})") from None


def _is_whole(content: object) -> bool:
    """Return whether a reply that the server ended is whole. Some models add white space until the limit."""
    try:
        read_reply(str(content), lenient_fences=True)
    except InvalidOutput:
        return False
    return True


def _cut(usage: object) -> str:
    """Return how a reply was cut off. Servers have limits of their own."""
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if not isinstance(tokens, int):
        return "the reply was cut off at its greatest length"
    own = ", a limit of the server" if tokens < _MOST_TOKENS else ""
    return f"the reply was cut off at {tokens:,} tokens{own}"


def _error(response: httpx.Response) -> Mapping[str, Any]:
    """Return the error in an answer. Some servers give no object `error`, but `message` alone."""
    try:
        body = response.json()
    except (ValueError, RecursionError):
        return {}
    if not isinstance(body, dict):
        return {}
    if "error" not in body:
        return body if isinstance(body.get("message"), str) else {}
    error = body["error"]
    return error if isinstance(error, dict) else {"message": error}


def _status(response: httpx.Response, key: str) -> str:
    status = f"Model error: the server answered {response.status_code} {response.reason_phrase}".rstrip()
    error = _error(response)
    message = error.get("message")
    codes = (response.status_code, error.get("code"))
    # The body often repeats parts of the key.
    if 401 in codes or (403 in codes and (not message or _has_part(str(message), key))):
        message = "check OPENAI_API_KEY"
    return f"{status}: {message}" if isinstance(message, str) else status


def _has_part(text: str, key: str) -> bool:
    """Return whether a text has four characters of a key in a row."""
    return any(key[at : at + 4] in text for at in range(len(key) - 3))
