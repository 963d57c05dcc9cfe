"""The chat model that the settings ask for."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from agent.config import Settings
from agent.known_secrets import PROVIDER_KEYS
from libs.models.deferred import DeferredChatModel, ModelUnavailable

if TYPE_CHECKING:
    from langchain_core.language_models import BaseLLM

    from libs.models.openvino import OpenVinoEngine

__all__ = [
    "CHOICES",
    "RUNTIME_COMMAND",
    "RealModel",
    "build_model",
    "calls_tools",
    "is_local",
    "served_model",
]

CHOICES = (
    "Set MODEL=provider:model and the provider's key, OPENAI_API_KEY, or OPENAI_BASE_URL for a server of "
    "your own (Ollama, vLLM, llama.cpp), in the environment or in .env; MODEL=scripted:<file> plays a "
    "script, as `make demo` does, which needs no model."
)
"""How a model is chosen, for error messages."""

RUNTIME_COMMAND = "pip install -e '.[local]'"
"""Installs what runs a local model."""


def build_model(settings: Settings) -> BaseChatModel:
    """Make the model that `Settings.chosen_model` names.

    Needs neither key nor network: all but a script is built at the first call, which raises
    `ModelUnavailable` where something is missing.

    Raises:
        ScriptError: `MODEL=scripted:<file>` names a file that is no script.
    """
    spec = settings.chosen_model
    provider, _, name = spec.partition(":")
    if provider == "scripted":
        from libs.models.scripted import ScriptedChatModel

        return ScriptedChatModel.from_file(Path(name))
    return DeferredChatModel(label=spec, build=functools.cache(lambda: _build(settings, provider, name)))


def served_model(settings: Settings) -> BaseChatModel:
    """The settings' model; for a script that cannot be read, one whose first call says so.

    Importing a module that serves a graph must not fail for it: whoever builds a graph with another model
    imports it too.
    """
    if not settings.chosen_model.startswith("scripted:"):
        return build_model(settings)

    from libs.models.scripted import ScriptError

    try:
        return build_model(settings)
    except ScriptError as error:
        reason = ModelUnavailable(str(error))

    def refuse() -> BaseChatModel:
        raise reason

    return DeferredChatModel(label=str(settings.model), build=refuse)


def is_local(model: BaseChatModel | BaseLLM) -> bool:
    """Whether a model runs in this process: a small one. Known without its weights."""
    if isinstance(model, DeferredChatModel):
        return model.label.partition(":")[0] == "local"

    from libs.models.local import LocalChatModel

    return isinstance(model, LocalChatModel)


def calls_tools(model: BaseChatModel) -> bool:
    """Whether a model can be given tools. Builds a deferred one; do not call it on the event loop.

    Raises:
        ModelUnavailable: it cannot be built.
    """
    if is_local(model):
        return False
    if isinstance(model, DeferredChatModel):
        model = model.build()
    return type(model).bind_tools is not BaseChatModel.bind_tools


class RealModel(AgentMiddleware[Any, Any, Any]):
    """Puts the real model in the place of a deferred one, for middleware that asks which provider it is.

    Without it, prompt caching would not know Anthropic's models.

    Args:
        errors: makes the context in which the model is built and called, which takes secrets out of errors.
    """

    def __init__(self, errors: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        super().__init__()
        self._errors = errors

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        with self._errors():
            return handler(_with_real_model(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        with self._errors():
            # Building one imports its package and reads certificates: not on the event loop.
            return await handler(await asyncio.to_thread(_with_real_model, request))


def _with_real_model(request: ModelRequest[Any]) -> ModelRequest[Any]:
    if isinstance(request.model, DeferredChatModel):
        return request.override(model=request.model.build())
    return request


def _build(settings: Settings, provider: str, name: str) -> BaseChatModel:
    if provider == "local":
        return _local(settings, name)
    if provider == "openai":
        return _openai(settings, name)

    from langchain.chat_models import init_chat_model

    variable = PROVIDER_KEYS.get(provider)
    key = settings.secret(variable) if variable else None
    if variable and key is None:
        raise _missing(variable, f"{provider}:{name}")
    options: dict[str, Any] = {"api_key": key} if key else {}
    try:
        model: BaseChatModel = init_chat_model(name, model_provider=provider, **options)
    except (ImportError, ValueError) as error:  # its package is not installed, or it is no provider
        raise ModelUnavailable(f"MODEL={provider}:{name} cannot be used: {error}") from error
    return model


def _local(settings: Settings, name: str) -> BaseChatModel:
    """The model that was fetched, or the GGUF file that MODEL=local:<file> names."""
    from libs.models.gguf import GgufError
    from libs.models.local import LocalChatModel
    from libs.models.openvino import runtime_installed
    from libs.models.weights import QWEN_CODER, kept

    path = Path(name).expanduser() if name else kept(QWEN_CODER, settings.models_dir)
    missing = []
    if path is None:
        missing.append(f"fetch its {QWEN_CODER.bytes / 1e9:.1f} GB with `code-agent model fetch`")
    if not runtime_installed():
        missing.append(f"install what runs it with `{RUNTIME_COMMAND}`")
    if path is None or missing:
        why = "The local model" if settings.model else "No model is configured, and the local one"
        both = ", or do both with `make local`" if len(missing) > 1 else ""
        raise ModelUnavailable(f"{why} is not ready: {', and '.join(missing)}{both}. {CHOICES}")
    try:
        return LocalChatModel(engine=_engine(path), model_name=f"local:{path.name}")
    except GgufError as error:
        raise ModelUnavailable(f"MODEL=local:{name} cannot be used: {error}. {CHOICES}") from error


@functools.cache
def _engine(path: Path) -> OpenVinoEngine:
    """One for all graphs of this process: each takes gigabytes."""
    from libs.models.openvino import OpenVinoEngine

    return OpenVinoEngine(path)


def _openai(settings: Settings, name: str) -> BaseChatModel:
    from langchain_openai import ChatOpenAI

    key = settings.openai_api_key
    if key is None:
        if settings.openai_base_url is None:
            raise _missing("OPENAI_API_KEY", f"openai:{name}")
        # The client insists on a key; a server that needs none ignores it.
        key = SecretStr("none")
    url, options = _without_password(settings.openai_base_url)
    # Servers other than OpenAI's report the tokens of a stream only when asked; budgets count them.
    return ChatOpenAI(model=name, api_key=key, base_url=url, stream_usage=True, **options)


def _without_password(url: str | None) -> tuple[str | None, dict[str, Any]]:
    """The URL without user and password, and the options that send both: tracers are told the URL."""
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
    return ModelUnavailable(f"{variable} is not set, and {spec} needs it. {CHOICES}")
