"""Builds the chat model that the settings choose."""

from __future__ import annotations

import functools
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from agent.models.provider_model import CHOICES, provider_model
from agent.secrets import key_of
from agent.settings import Settings
from libs.models import DeferredChatModel, ModelUnavailable

if TYPE_CHECKING:
    from langchain_core.language_models import BaseLLM

    from libs.models.openvino_engine import OpenVinoEngine

__all__ = [
    "RUNTIME_COMMAND",
    "build_model",
    "calls_tools",
    "is_local",
    "keys_in_use",
    "name_of",
    "served_model",
    "shown_name",
]

logger = logging.getLogger(__name__)

RUNTIME_COMMAND = "make local"
"""Installs the engine of the local model, and fetches the model."""


def build_model(settings: Settings) -> BaseChatModel:
    """Make the model that `Settings.chosen_model` names.

    Needs neither key nor network: except for a script, the model is built at its first call, which raises
    `ModelUnavailable` if something is missing.

    Raises:
        ScriptError: the file in `MODEL=scripted:<file>` is not a script.
    """
    spec = settings.chosen_model
    provider, _, name = spec.partition(":")
    if provider == "scripted":
        from libs.models import ScriptedChatModel

        return ScriptedChatModel.from_file(Path(name))
    return DeferredChatModel(label=spec, build=functools.cache(lambda: _build(settings, provider, name)))


def served_model(settings: Settings) -> BaseChatModel:
    """Make the settings' model. If a script cannot be read, logs that; a call raises `ModelUnavailable`.

    So importing a module that serves a graph does not fail, for example for callers with another model.
    """
    if not settings.chosen_model.startswith("scripted:"):
        return build_model(settings)

    from libs.models import ScriptError

    try:
        return build_model(settings)
    except ScriptError as error:
        reason = ModelUnavailable(f"MODEL={settings.chosen_model} cannot be played. {error}")
        logger.warning("%s", reason)

    def refuse() -> BaseChatModel:
        raise reason

    return DeferredChatModel(label=str(settings.model), build=refuse)


def is_local(model: BaseChatModel | BaseLLM) -> bool:
    """Return whether a model runs in this process. Loads no weights."""
    if isinstance(model, DeferredChatModel):
        return model.label.partition(":")[0] == "local"

    from libs.models.local_model import LocalChatModel

    return isinstance(model, LocalChatModel)


def calls_tools(model: BaseChatModel) -> bool:
    """Return whether a model can call tools. Builds a deferred model: do not call on the event loop.

    Raises:
        ModelUnavailable: the model cannot be built.
    """
    if is_local(model):
        return False
    if isinstance(model, DeferredChatModel):
        model = model.build()
    return type(model).bind_tools is not BaseChatModel.bind_tools


def name_of(model: BaseChatModel) -> str:
    """Return a model's name in the form of MODEL."""
    return str(getattr(model, "label", None) or f"scripted:{getattr(model, 'source', '')}")


def keys_in_use(settings: Settings, model: BaseChatModel | None = None) -> frozenset[str]:
    """Return the keys of the embedder and of `model`. None: of the model that the settings choose."""
    named = [name_of(model) if model else settings.chosen_model, settings.embedder]
    keys = [key_of(settings, name) for name in named if name]
    held = [value for value in vars(model).values() if isinstance(value, SecretStr)] if model else []
    return frozenset(key.get_secret_value() for key in [*keys, *held] if key)


def shown_name(model: BaseChatModel) -> str:
    """Return a model's name for people, which tells a script from a model."""
    scripted = " (a script that is played, not a model)"
    return name_of(model) + ("" if isinstance(model, DeferredChatModel) else scripted)


def _build(settings: Settings, provider: str, name: str) -> BaseChatModel:
    if provider == "local":
        return _local(settings, name)
    return provider_model(settings, provider, name)


def _local(settings: Settings, name: str) -> BaseChatModel:
    """Make the fetched model, or the model in the GGUF file of MODEL=local:<file>."""
    from libs.models import GgufError
    from libs.models.local_model import LocalChatModel
    from libs.models.openvino_engine import runtime_installed
    from libs.models.weights import QWEN_CODER, kept

    path = Path(name).expanduser() if name else kept(QWEN_CODER, settings.models_dir)
    missing = ""
    if not runtime_installed():
        also = f" and fetches its {QWEN_CODER.bytes / 1e9:.1f} GB" if path is None else ""
        missing = f"`{RUNTIME_COMMAND}` in the folder of this project installs its engine{also}"
    elif path is None:
        missing = f"fetch its {QWEN_CODER.bytes / 1e9:.1f} GB with `code-agent model fetch`"
    if path is None or missing:
        why = "The local model" if settings.model else "No model is configured, and the local one"
        raise ModelUnavailable(f"{why} is not ready: {missing}. {CHOICES}")
    try:
        return LocalChatModel(engine=_engine(path), model_name=f"local:{path.name}")
    except GgufError as error:
        raise ModelUnavailable(f"MODEL=local:{name} cannot be used: {error}.") from error


@functools.cache
def _engine(path: Path) -> OpenVinoEngine:
    """Make one engine for all graphs of this process, because an engine takes gigabytes."""
    from libs.models.openvino_engine import OpenVinoEngine

    return OpenVinoEngine(path)
