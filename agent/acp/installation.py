"""What all sessions share: the settings, the model, the computer, the threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, closing
from typing import TYPE_CHECKING, Any, cast

from langgraph.graph.state import CompiledStateGraph

from agent.agents import AgentName, agent_of, build_agent, choose_agent, steps_of
from agent.config import Settings, build_backend, build_model, load_settings
from agent.known_secrets import secret_filter
from agent.run import Run
from agent.sinks import guard_traces
from agent.threads import LOCKS, open_threads
from libs.models.deferred import DeferredChatModel
from libs.persistence.thread_lock import thread_lock

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from libs.backends.docker import DockerExecutionBackend
    from libs.backends.workspace import WorkspaceBackend

__all__ = ["Installation", "open_installation"]


class Installation:
    """Carries out runs in threads; see `open_installation`."""

    def __init__(
        self,
        settings: Settings,
        model: BaseChatModel,
        backend: WorkspaceBackend,
        checkpointer: BaseCheckpointSaver[Any],
    ) -> None:
        self.settings = settings
        self._model = model
        self._backend = backend
        self._checkpointer = checkpointer
        self._graphs: dict[AgentName, CompiledStateGraph[Any, Any, Any, Any]] = {}
        self._building = asyncio.Lock()
        known = secret_filter(settings)
        self._redact: Callable[[str], str] = known or str
        if known:
            guard_traces(known)

    async def exists(self, thread_id: str) -> bool:
        """Whether something was said in this thread."""
        return await agent_of(self._checkpointer, thread_id) is not None

    async def check(self) -> None:
        """See that a run can do something: the model can be built, the sandbox started.

        Without it the model would be told of a missing Docker, and the person only by the model.

        Raises:
            ModelUnavailable, SandboxError: it cannot; the error says what to do.
        """
        await asyncio.to_thread(self._check)

    async def run(self, thread_id: str) -> Run:
        """A run in a thread, which may be new.

        Raises:
            AgentRefused: the thread is one of the deep agent, and the model cannot call tools.
            ModelUnavailable: the model cannot be built.
            SettingsError: a setting has changed to what it cannot be.
        """
        name = await asyncio.to_thread(
            choose_agent,
            "auto",
            thread_id=thread_id,
            thread_agent=await agent_of(self._checkpointer, thread_id),
            model=self._model,
            spec=str(getattr(self._model, "label", "")) or "of the script",
        )
        async with self._building:
            if name not in self._graphs:
                # Importing what agents are made of takes seconds.
                self._graphs[name] = await asyncio.to_thread(
                    build_agent,
                    name,
                    self._model,
                    checkpointer=self._checkpointer,
                    settings=self.settings,
                    backend=self._backend,
                )
        # Looks at the files of the workspace.
        return await asyncio.to_thread(
            Run,
            self._graphs[name],
            steps_of(name),
            thread_id,
            self.settings.workspace_of(thread_id),
            self._redact,
        )

    def hold(self, thread_id: str) -> AbstractContextManager[None]:
        """Keep every other program out of a thread, for the length of the block.

        Raises:
            ThreadInUse: another one is at work in it.
        """
        return thread_lock(LOCKS, thread_id)

    def close(self) -> None:
        """End the sandboxes; blocks."""
        cast("DockerExecutionBackend", self._backend.default).close()

    def _check(self) -> None:
        from libs.backends.docker.image import require_image
        from libs.sandbox.engine import connect, explained

        if isinstance(self._model, DeferredChatModel):
            self._model.build()
        with closing(connect(timeout=10)) as client, explained():
            require_image(client, self.settings.image)


@asynccontextmanager
async def open_installation() -> AsyncIterator[Installation]:
    """Read the settings, open the threads, make model and computer; needs neither Docker nor a key.

    Raises:
        SettingsError, ScriptError, CheckpointerUnavailable: it cannot be done.
    """
    settings = await asyncio.to_thread(load_settings)
    model = await asyncio.to_thread(build_model, settings)
    backend = await asyncio.to_thread(build_backend, settings)
    async with open_threads(settings) as checkpointer:
        installation = Installation(settings, model, backend, checkpointer)
        try:
            yield installation
        finally:
            await asyncio.to_thread(installation.close)
