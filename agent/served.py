"""What this process serves graphs with: one model and one computer, however many graphs and routes there are.

LangGraph's server loads the modules of langgraph.json under names of its own, so what they make themselves is
made again for whoever imports them. What is made here is made once: a thread has the same sandbox whether it
goes on in LangGraph's routes or in ours.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from langchain_core.language_models import BaseChatModel

from agent.config import Settings, build_backend, load_settings
from agent.models import served_model
from agent.sinks import guard_process
from libs.backends.workspace import WorkspaceBackend

__all__ = ["Served", "served"]


@dataclass(frozen=True)
class Served:
    """Settings, and what is made from them. Making it needs neither Docker nor a key."""

    settings: Settings
    model: BaseChatModel
    backend: WorkspaceBackend


@functools.cache
def served() -> Served:
    """The one of this process.

    Raises:
        SettingsError: a setting has a value it cannot have.
    """
    settings = load_settings()
    guard_process(settings)
    return Served(settings, served_model(settings), build_backend(settings))
