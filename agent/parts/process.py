"""Builds the parts that a process needs once: settings, model and computer, for all graphs, routes and runs.

LangGraph's server loads the modules of langgraph.json under other names, so objects made in these modules
would exist twice. Objects made here exist once: a thread has the same sandbox in LangGraph's routes and ours.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from langchain_core.language_models import BaseChatModel
from langsmith.utils import get_env_var

from agent.models import build_model, served_model, unused_keys
from agent.secrets import guard_sinks, guard_traces, secret_filter
from agent.settings import Settings, load_settings
from agent.threads import taking_turns
from libs.backends import WorkspaceBackend
from libs.middleware.approvals import AddressedGraph
from libs.middleware.budget import Budget

if TYPE_CHECKING:
    from agent.parts.exec_parts import ExecParts
    from libs.backends.docker import DockerExecutionBackend

__all__ = ["Parts", "build_parts", "graph_of", "prepared", "run_budget", "served"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parts:
    """Settings, model and computer. Making them needs neither Docker nor a key."""

    settings: Settings
    model: BaseChatModel
    backend: WorkspaceBackend

    @property
    def computer(self) -> DockerExecutionBackend:
        """The computer; in scope `thread` the computer of the current thread."""
        return cast("DockerExecutionBackend", self.backend.default)

    @functools.cached_property
    def exec_parts(self) -> ExecParts:
        """Parts of the one-tool agent, made at their first use."""
        from agent.parts.exec_parts import build_exec_parts

        return build_exec_parts(self.settings, self.model)

    def close(self) -> None:
        """End the sandboxes; blocks."""
        self.computer.close()
        if "exec_parts" in self.__dict__:
            self.exec_parts.close()


def prepared(settings: Settings) -> Settings:
    """Prepare this process for graphs with these settings, and return the settings.

    From now on packages find their variables of `.env` in the environment, and traces to LangSmith are
    redacted.
    """
    settings.export_dotenv()
    # LangSmith caches its variables, and LangGraph's server may have read them before this line.
    # mypy does not know `cache_clear`, because the function is overloaded.
    get_env_var.cache_clear()  # type: ignore[attr-defined]
    if known := secret_filter(settings):
        guard_traces(known)
    return settings


def build_parts(settings: Settings, model: Callable[[Settings], BaseChatModel] = build_model) -> Parts:
    """Make the parts. Prepares this process, and redacts secrets in its log and its crash tracebacks.

    Logs a warning if the key of a provider is set but no model is chosen.

    Raises:
        ScriptError: the file in `MODEL=scripted:<file>` is not a script.
    """
    from agent.parts.agent_backend import build_backend  # imports the container modules

    prepared(settings)
    if known := secret_filter(settings):
        guard_sinks(known)
    if hint := unused_keys(settings):
        logger.warning(hint)
    return Parts(settings, model(settings), build_backend(settings))


@functools.cache
def served() -> Parts:
    """Return the parts of the graphs that this process serves.

    Raises:
        SettingsError: a setting is wrong.
    """
    return build_parts(load_settings(), served_model)


def run_budget(settings: Settings) -> Budget:
    """Return the limits of one run: model calls, seconds of work, tokens."""
    return Budget(
        calls=settings.run_max_calls, seconds=settings.run_max_seconds, tokens=settings.run_max_tokens
    )


def graph_of(module: dict[str, Any], build: Callable[..., AddressedGraph]) -> Callable[[str], Any]:
    """Return a module's `__getattr__` (PEP 562) that makes `graph` at its first use.

    So importing `build_graph` from the module makes no graph. LangGraph's server reads the module's
    dictionary (langgraph-api 0.16), so for the server the graph is made at once.
    """

    def made(name: str) -> Any:
        if name != "graph":
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        parts = served()
        graph = taking_turns(build(parts.model, settings=parts.settings, backend=parts.backend))
        return module.setdefault(name, graph)

    if not module["__name__"].startswith("agent."):  # the server loads the file under another name
        made("graph")
    return made
