"""What this process serves graphs with: one model and one computer, however many graphs and routes there are.

LangGraph's server loads the modules of langgraph.json under names of its own, so what they make themselves is
made again for whoever imports them. What is made here is made once: a thread has the same sandbox whether it
goes on in LangGraph's routes or in ours.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel

from agent.config import Settings, build_backend, load_settings
from agent.models import served_model
from agent.sinks import guard_process
from agent.turns import taking_turns
from libs.backends.workspace import WorkspaceBackend
from libs.middleware.answers import AddressedGraph

if TYPE_CHECKING:
    from agent.exec_parts import ExecParts

__all__ = ["Served", "graph_of", "served"]


@dataclass(frozen=True)
class Served:
    """Settings, and what is made from them. Making it needs neither Docker nor a key."""

    settings: Settings
    model: BaseChatModel
    backend: WorkspaceBackend

    @functools.cached_property
    def exec_parts(self) -> ExecParts:
        """What the one-tool agent works with."""
        from agent.exec_parts import build_parts

        return build_parts(self.settings)


@functools.cache
def served() -> Served:
    """The one of this process.

    Raises:
        SettingsError: a setting has a value it cannot have.
    """
    settings = load_settings()
    guard_process(settings)
    return Served(settings, served_model(settings), build_backend(settings))


def graph_of(module: dict[str, Any], build: Callable[..., AddressedGraph]) -> Callable[[str], Any]:
    """The `__getattr__` of a module whose `graph` is made when it is first asked for (PEP 562).

    Whoever builds a graph of his own from the module (a command, an editor, a test) does not wait for this
    one. LangGraph's server looks into the module's dictionary (langgraph-api 0.16): for it, it is made now.

    Args:
        module: the module's `globals()`.
        build: its `build_graph`.
    """

    def made(name: str) -> Any:
        if name != "graph":
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        parts = served()
        graph = taking_turns(build(parts.model, settings=parts.settings, backend=parts.backend))
        return module.setdefault(name, graph)

    if not module["__name__"].startswith("agent."):  # the server loads the file under a name of its own
        made("graph")
    return made
