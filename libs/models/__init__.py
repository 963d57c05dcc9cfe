"""Chat models: local weights, a script, and explained errors of providers without secrets.

In comes the name of a model; out comes a LangChain chat model, built at its first call.
"""

from __future__ import annotations

from libs.models.deferred_model import DeferredChatModel, ModelUnavailable
from libs.models.gguf_header import GgufError
from libs.models.model_errors import (
    ConversationTooLong,
    ModelFailed,
    explained_errors,
    provider_failure,
    with_address,
)
from libs.models.scripted_model import ScriptedChatModel, ScriptError, ScriptExhausted

__all__ = [
    "ConversationTooLong",
    "DeferredChatModel",
    "GgufError",
    "ModelFailed",
    "ModelUnavailable",
    "ScriptError",
    "ScriptExhausted",
    "ScriptedChatModel",
    "explained_errors",
    "provider_failure",
    "with_address",
]
