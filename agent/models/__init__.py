"""Builds the chat model that the settings choose, and tells what a model can do.

In come the settings. Out goes a model of LangChain. Before its first call it needs neither key nor network.
"""

from __future__ import annotations

from agent.models.chat_model import (
    RUNTIME_COMMAND,
    build_model,
    calls_tools,
    is_local,
    keys_in_use,
    name_of,
    served_model,
    shown_name,
)
from agent.models.provider_model import CHOICES, unused_keys
from agent.models.real_model import RealModel

__all__ = [
    "CHOICES",
    "RUNTIME_COMMAND",
    "RealModel",
    "build_model",
    "calls_tools",
    "is_local",
    "keys_in_use",
    "name_of",
    "served_model",
    "shown_name",
    "unused_keys",
]
