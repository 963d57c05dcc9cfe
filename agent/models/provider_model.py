"""Builds a chat model of a provider, with the key and the address from the environment or from `.env`."""

from __future__ import annotations

from typing import Any

import httpx
from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from agent.secrets import PROVIDER_KEYS
from agent.settings import Settings
from libs.models import ModelUnavailable

__all__ = ["CHOICES", "provider_model", "unused_keys"]

CHOICES = (
    "Set MODEL=provider:model and the provider's key, OPENAI_API_KEY, or OPENAI_BASE_URL for a server of "
    "your own (Ollama, vLLM, llama.cpp), in the environment or in .env; MODEL=scripted:<file> plays a "
    "script, as `make demo` does, which needs no model."
)
"""Tells how to choose a model, for error messages."""

_ADDRESSES = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "ollama": "OLLAMA_HOST",
    "openrouter": "OPENROUTER_API_BASE",
}
"""Provider -> variable with another address of its server. The packages themselves do not read `.env`."""


def provider_model(settings: Settings, provider: str, name: str) -> BaseChatModel:
    """Make the model `name` of a provider of LangChain's `init_chat_model`.

    Raises:
        ModelUnavailable: the key or the package is missing, or there is no such provider.
    """
    if provider == "openai":
        return _openai(settings, name)

    from langchain.chat_models import init_chat_model

    spec = f"{provider}:{name}"
    options: dict[str, Any] = {}
    if variable := PROVIDER_KEYS.get(provider):
        options["api_key"] = settings.secret(variable)
        if options["api_key"] is None:
            raise _missing(variable, spec)
    if (variable := _ADDRESSES.get(provider)) and (address := settings.secret(variable)):
        options["base_url"] = address.get_secret_value()
    try:
        model: BaseChatModel = init_chat_model(name, model_provider=provider, **options)
    except ImportError as error:  # LangChain names the package and the command
        raise ModelUnavailable(
            f"MODEL={spec} cannot be used: {error}. In the folder of this project, pip is `.venv/bin/pip`."
        ) from error
    except ValueError as error:  # an unknown provider
        raise ModelUnavailable(f"MODEL={spec} cannot be used: {error}") from error
    return model


def unused_keys(settings: Settings) -> str:
    """Return a hint for each provider whose key is set while no model is chosen; "" if there is none.

    A key alone chooses no model, because the key may be meant for programs.
    """
    if settings.model is not None or settings.chosen_model != "local":
        return ""
    return " ".join(
        f"{variable} is set, but no model is chosen: write MODEL={provider}:<model> into .env to use it."
        for provider, variable in PROVIDER_KEYS.items()
        if settings.secret(variable)
    )


def _openai(settings: Settings, name: str) -> BaseChatModel:
    from langchain_openai import ChatOpenAI

    key = settings.openai_api_key
    if key is None:
        if settings.openai_base_url is None:
            raise _missing("OPENAI_API_KEY", f"openai:{name}")
        # The client requires a key; a server without keys ignores it.
        key = SecretStr("none")
    url, options = _without_password(settings.openai_base_url)
    # stream_usage: budgets count tokens, which other servers than OpenAI's report only on request.
    return ChatOpenAI(model=name, api_key=key, base_url=url, stream_usage=True, **options)


def _without_password(url: str | None) -> tuple[str | None, dict[str, Any]]:
    """Move user and password from the URL into client options, because tracers record the URL."""
    if url is None or (parts := httpx.URL(url)).userinfo == b"":
        return url, {}

    from openai import DefaultAsyncHttpxClient, DefaultHttpxClient

    auth = (parts.username, parts.password)
    clients = {
        "http_client": DefaultHttpxClient(auth=auth),
        "http_async_client": DefaultAsyncHttpxClient(auth=auth),
    }
    return str(parts.copy_with(username=None, password=None)), clients


def _missing(variable: str, spec: str) -> ModelUnavailable:
    server = ", or OPENAI_BASE_URL for a server of your own," if variable == "OPENAI_API_KEY" else ""
    return ModelUnavailable(
        f"{variable} is not set, and {spec} needs it. Set it{server} in the environment or in .env."
    )
