"""What the sessions of an editor, or the turns of a chat, share: settings, model, computer, threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.runnables.config import var_child_runnable_config
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot

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

    from agent.exec_parts import ExecParts
    from libs.backends.docker import DockerExecutionBackend
    from libs.backends.workspace import WorkspaceBackend
    from libs.persistence.served_saver import ServedSaver

__all__ = ["Installation", "open_installation"]


class Installation:
    """Carries out runs in threads; see `open_installation`."""

    def __init__(
        self,
        settings: Settings,
        model: BaseChatModel,
        backend: WorkspaceBackend,
        checkpointer: ServedSaver,
    ) -> None:
        self.settings = settings
        self.model = model
        self.threads = checkpointer
        self._backend = backend
        self._graphs: dict[tuple[AgentName, str], CompiledStateGraph[Any, Any, Any, Any]] = {}
        self._parts: ExecParts | None = None
        """What the one-tool agent works with."""
        self._building = asyncio.Lock()
        known = secret_filter(settings)
        self._redact: Callable[[str], str] = known or str
        if known:
            guard_traces(known)

    async def exists(self, thread_id: str) -> bool:
        """Whether something was said in this thread."""
        return await agent_of(self.threads, thread_id) is not None

    async def check(self) -> None:
        """See that a run can do something: the model can be built, the sandbox started.

        Without it the model would be told of a missing Docker, and the person only by the model.

        Raises:
            ModelUnavailable, SandboxError: it cannot; the error says what to do.
        """
        await asyncio.to_thread(self._check)

    async def agent(self, thread_id: str, asked: AgentName | Literal["auto"] = "auto") -> AgentName:
        """The agent that a run in this thread is for.

        Raises:
            AgentRefused: the thread is another agent's, or the deep one's and the model cannot call tools.
            ModelUnavailable: the model cannot be built.
        """
        return await asyncio.to_thread(
            choose_agent,
            asked,
            thread_id=thread_id,
            thread_agent=await agent_of(self.threads, thread_id),
            model=self.model,
            spec=str(getattr(self.model, "label", "")) or "of the script",
        )

    async def run(
        self,
        thread_id: str,
        asked: AgentName | Literal["auto"] = "auto",
        *,
        approvals: Literal["ask", "auto"] | None = None,
    ) -> Run:
        """A run in a thread, which may be new.

        Args:
            thread_id: the thread.
            asked: the agent of a new thread.
            approvals: whether the agent has a gate; by default as the settings say. Only one with a gate
                knows of the questions that wait in a thread.

        Raises:
            AgentRefused, ModelUnavailable: see `agent`.
            SettingsError: a setting has changed to what it cannot be.
        """
        name = await self.agent(thread_id, asked)
        graph = await self._graph(name, approvals or self.settings.approvals)
        # Looks at the files of the workspace.
        return await asyncio.to_thread(
            Run,
            graph,
            steps_of(name),
            thread_id,
            self.settings.workspace_of(thread_id),
            self._redact,
        )

    def use(self, model: BaseChatModel) -> None:
        """Have later runs answered by another model."""
        self.model = model
        self._graphs.clear()

    @contextmanager
    def within(self, thread_id: str) -> Iterator[DockerExecutionBackend]:
        """The computer of a thread, for who asks it outside of a run."""
        token = var_child_runnable_config.set({"configurable": {"thread_id": thread_id}})
        try:
            yield self.computer
        finally:
            var_child_runnable_config.reset(token)

    async def state(self, thread_id: str) -> StateSnapshot | None:
        """A thread as it stands, read by the agent that it belongs to; None where there is no such thread."""
        name = await agent_of(self.threads, thread_id)
        if name is None:
            return None
        graph = await self._graph(name, "ask")
        return await graph.aget_state({"configurable": {"thread_id": thread_id}})

    async def _graph(
        self, name: AgentName, approvals: Literal["ask", "auto"]
    ) -> CompiledStateGraph[Any, Any, Any, Any]:
        async with self._building:
            if (name, approvals) not in self._graphs:
                # Importing what agents are made of takes seconds.
                self._graphs[name, approvals] = await asyncio.to_thread(self._build, name, approvals)
            return self._graphs[name, approvals]

    def _build(
        self, name: AgentName, approvals: Literal["ask", "auto"]
    ) -> CompiledStateGraph[Any, Any, Any, Any]:
        if name == "exec" and self._parts is None:
            from agent.exec_parts import build_parts

            self._parts = build_parts(self.settings)
        return build_agent(
            name,
            self.model,
            checkpointer=self.threads,
            settings=self.settings.model_copy(update={"approvals": approvals}),
            backend=self._backend,
            parts=self._parts,
        )

    @property
    def computer(self) -> DockerExecutionBackend:
        """The computer of all threads; in scope `thread` that of the thread in which it is asked."""
        return cast("DockerExecutionBackend", self._backend.default)

    def hold(self, thread_id: str) -> AbstractContextManager[None]:
        """Keep every other program out of a thread, for the length of the block.

        Raises:
            ThreadInUse: another one is at work in it.
        """
        return thread_lock(LOCKS, thread_id)

    def close(self) -> None:
        """End the sandboxes; blocks."""
        self.computer.close()
        if self._parts:
            self._parts.close()

    def _check(self) -> None:
        from libs.backends.docker.image import require_image
        from libs.sandbox.engine import connect
        from libs.sandbox.explain import explained

        if isinstance(self.model, DeferredChatModel):
            self.model.build()
        with closing(connect(timeout=10)) as client, explained():
            require_image(client, self.settings.image)


@asynccontextmanager
async def open_installation(**overrides: Any) -> AsyncIterator[Installation]:
    """Read the settings, open the threads, make model and computer; needs neither Docker nor a key.

    `overrides` are settings that win over those of the environment.

    Raises:
        SettingsError, ScriptError, CheckpointerUnavailable: it cannot be done.
    """
    settings = await asyncio.to_thread(load_settings, **overrides)
    model = await asyncio.to_thread(build_model, settings)
    backend = await asyncio.to_thread(build_backend, settings)
    async with open_threads(settings) as checkpointer:
        installation = Installation(settings, model, backend, checkpointer)
        try:
            yield installation
        finally:
            await asyncio.to_thread(installation.close)
