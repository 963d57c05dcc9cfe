"""`Runtime` makes runs of every agent in the threads of this installation, for every entry point."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.types import StateSnapshot

from agent.listing import Listing, NamedPath, absent, captured_listing, listing
from agent.models import build_model
from agent.parts import DeferredCaptures, Parts, RuleBook, build_parts, captures_of, run_budget
from agent.run.agent_run import Run
from agent.run.agents import GRAPH_IDS, AgentName, agent_of, build_agent, choose_agent
from agent.run.sandbox_check import require_cluster, require_engine
from agent.run.thread_points import ThreadPoints
from agent.run.turn_points import WrongPoint
from agent.secrets import secret_filter
from agent.settings import Settings, load_settings
from agent.threads import open_threads, place
from libs.middleware.approvals import AddressedGraph
from libs.models import DeferredChatModel, ScriptedChatModel
from libs.persistence.served_saver import ServedSaver

if TYPE_CHECKING:
    from libs.backends.docker import DockerExecutionBackend
    from libs.workspace.history import Moved, ThreadFiles

__all__ = ["Runtime", "open_runtime"]

Approvals = Literal["ask", "effects", "auto"]


class Runtime:
    """Makes runs in threads; builds each graph once.

    Args:
        parts: parts of the agents; the caller closes them.
        threads: the checkpointer.
    """

    def __init__(self, parts: Parts, threads: ServedSaver) -> None:
        self.settings = parts.settings
        self.model = parts.model
        self.threads = threads
        self._parts = parts
        self._graphs: dict[tuple[AgentName, Approvals], AddressedGraph] = {}
        self._building = asyncio.Lock()
        self._joined = False
        """Whether the cluster has answered."""

    @property
    def computer(self) -> DockerExecutionBackend:
        """See `Parts.computer`."""
        return self._parts.computer

    @functools.cached_property
    def rules(self) -> RuleBook:
        """The rules file, for people who write rules."""
        return RuleBook(self.settings)

    @functools.cached_property
    def _redact(self) -> Callable[[str], str]:
        return secret_filter(self.settings) or str

    async def agent(self, thread_id: str, asked: AgentName | Literal["auto"] = "auto") -> AgentName:
        """Return the agent for a run in this thread.

        Raises:
            AgentRefused, ModelUnavailable: see `agent.run.agents.choose_agent`.
        """
        latest = await self.threads.aget_tuple({"configurable": {"thread_id": thread_id}})
        return await asyncio.to_thread(
            choose_agent, asked, thread_id=thread_id, thread=latest and latest.metadata, model=self.model
        )

    async def run(
        self,
        thread_id: str,
        asked: AgentName | Literal["auto"] = "auto",
        *,
        pending: bool = False,
        watched: bool = True,
        metadata: Mapping[str, Any] = {},
    ) -> Run:
        """Make a run in a thread, which may be new.

        Args:
            thread_id: the thread.
            asked: the agent of a new thread.
            pending: whether the run resumes a pending step. Approvals that wait in the thread are then asked
                for although APPROVALS is now `auto`, because only a graph with a gate can resume them.
            watched: whether the run yields events.
            metadata: metadata for the thread's checkpoints.

        Raises:
            AgentRefused, ModelUnavailable: see `agent`.
        """
        name = await self.agent(thread_id, asked)
        off = self.settings.approvals == "auto"
        graph = await self._graph(name, "ask" if pending and off else self.settings.approvals)
        if pending and off:
            state = await graph.aget_state({"configurable": {"thread_id": thread_id}})
            graph = graph if state.interrupts else await self._graph(name, "auto")

        async def still_absent(paths: list[str]) -> list[str]:
            if name == "exec":  # its programs cannot change the folder that was searched
                return paths
            with self.within(thread_id) as computer:
                return await absent(computer.sandbox, [NamedPath(path) for path in paths])

        look = functools.partial(self._listing, thread_id, name)
        # In a thread, because the first redaction reads `.env`.
        return await asyncio.to_thread(
            lambda: Run(
                graph,
                name,
                thread_id,
                look if watched else None,
                redact=self._redact,
                budget=run_budget(self.settings),
                metadata=metadata,
                absent=still_absent,
            )
        )

    async def state(self, thread_id: str) -> StateSnapshot | None:
        """Return the state of a thread; None where the thread does not exist."""
        name = await agent_of(self.threads, thread_id)
        if name is None:
            return None
        graph = await self._graph(name, "ask")
        return await graph.aget_state({"configurable": {"thread_id": thread_id}})

    async def listing(self, thread_id: str) -> Listing:
        """Return the files in data/, scripts/ and results/ of a thread, as they are now or were last kept."""
        return await self._listing(thread_id, await agent_of(self.threads, thread_id))

    async def folder_of(self, thread_id: str) -> Path | None:
        """Return the folder on this machine with the files of a thread; None if they travel."""
        return self._folder_of(thread_id, await agent_of(self.threads, thread_id))

    def _folder_of(self, thread_id: str, name: AgentName | None) -> Path | None:
        return self.settings.workspace_of(thread_id) if self._is_here(name) else None

    def _is_here(self, name: AgentName | None) -> bool:
        """Return whether the sandboxes of an agent run on this machine. Programs of the one-tool agent do."""
        return name == "exec" or not self.settings.travels

    async def _listing(self, thread_id: str, name: AgentName | None) -> Listing:
        if folder := self._folder_of(thread_id, name):
            return await asyncio.to_thread(listing, folder)
        files = await self.travelling_files()
        return (
            await asyncio.to_thread(captured_listing, await files.latest(thread_id)) if files else Listing()
        )

    async def travelling_files(self) -> ThreadFiles | None:
        """Return the captured files of the threads; None if their workspaces are on this machine."""
        captures = captures_of(self.settings, self._parts.backend) if self.settings.travels else None
        return (await captures.made()).files if captures else None

    async def points(self, thread_id: str) -> ThreadPoints:
        """Return the turns of a thread, to go back to one of them.

        Raises:
            WrongPoint: there is no such thread.
        """
        name = await agent_of(self.threads, thread_id)
        if name is None:
            where = await asyncio.to_thread(place, self.settings)  # reads the working directory
            raise WrongPoint(f"There is no thread {thread_id!r} in {where}.")
        graph = await self._graph(name, "ask")
        captures = await asyncio.to_thread(self._captures, name)  # may read the working directory
        history = await captures.made() if captures else None
        return ThreadPoints(thread_id, graph, self.threads, history)

    def _captures(self, name: AgentName) -> DeferredCaptures | None:
        if name == "exec":
            return self._parts.exec_parts.captures
        return captures_of(self.settings, self._parts.backend)

    async def fork(self, thread_id: str, number: int | None = None, *, copy: str) -> Moved:
        """Copy a thread as it was at the end of a turn, with its files. Return what the files became.

        Args:
            number: the turn; 0: before the first; None: as the thread is now.
            copy: the id of the new thread.

        Raises:
            WrongPoint: there is no such thread or turn, or all threads share one workspace.
            NoCapture: the files of this point are not kept.
        """
        own_files = self.settings.scope == "thread" or await agent_of(self.threads, thread_id) == "exec"
        if not own_files:
            raise WrongPoint(
                "All threads share one workspace, so a copy would have no files of its own: set "
                "SANDBOX_SCOPE=thread for new threads."
            )
        source = await self.points(thread_id)
        at = await (source.present() if number is None else source.point(number))
        await self.threads.acopy_thread(thread_id, copy)
        try:
            return await (await self.points(copy)).begin_as_copy(at)
        except BaseException:
            await self.threads.adelete_thread(copy)
            raise

    async def goes_on(self, thread_id: str) -> bool:
        """Return whether the model can answer another message in a thread: a script may be at its end."""
        if not isinstance(self.model, ScriptedChatModel):
            return True
        state = await self.state(thread_id)
        return state is None or not self.model.played_out(state.values.get("messages", []))

    def use(self, model: BaseChatModel) -> None:
        """Use another model for later runs."""
        self.model = model
        self._graphs.clear()

    async def check_model(self) -> None:
        """Build the model, so that a missing key is reported before a thread begins.

        Raises:
            ModelUnavailable: the model cannot be built; the error says what to do.
        """
        if isinstance(self.model, DeferredChatModel):
            await asyncio.to_thread(self.model.build)

    async def check(self, agent: AgentName) -> None:
        """Check that the model can be built, an Engine answers and the image exists.

        Without the check a model would be called for nothing: only the model would read that Docker is
        missing, once for each command. Where sandboxes run on a cluster, the cluster has to answer instead,
        before the first run only: sandboxes that run already need no head.

        Raises:
            ModelUnavailable, SandboxError: one is missing; the error says what to do.
        """
        await self.check_model()
        if self._is_here(agent):
            await asyncio.to_thread(require_engine, self.settings)
        elif not self._joined:
            await asyncio.to_thread(require_cluster, self.settings)
            self._joined = True

    @contextmanager
    def within(self, thread_id: str) -> Iterator[DockerExecutionBackend]:
        """Yield the computer of a thread, for use outside of a run."""
        token = var_child_runnable_config.set({"configurable": {"thread_id": thread_id}})
        try:
            yield self.computer
        finally:
            var_child_runnable_config.reset(token)

    async def build_all(self) -> None:
        """Build the graphs of all agents now instead of at their first run."""
        for name in GRAPH_IDS:
            await self._graph(name, self.settings.approvals)

    async def _graph(self, name: AgentName, approvals: Approvals) -> AddressedGraph:
        async with self._building:
            if (name, approvals) not in self._graphs:
                # In a thread, because the imports take seconds.
                self._graphs[name, approvals] = await asyncio.to_thread(
                    lambda: build_agent(
                        name,
                        self.model,
                        checkpointer=self.threads,
                        settings=self.settings.model_copy(update={"approvals": approvals}),
                        backend=self._parts.backend,
                        parts=self._parts.exec_parts if name == "exec" else None,
                    )
                )
            return self._graphs[name, approvals]


@asynccontextmanager
async def open_runtime(*, asks_model: bool = True, **overrides: Any) -> AsyncIterator[Runtime]:
    """Read the settings, open the threads, make model and computer. Needs neither Docker nor a key.

    Args:
        asks_model: False: no run is made, so the model may be missing.
        overrides: settings that win over the environment.

    Raises:
        SettingsError, ScriptError, CheckpointerUnavailable: see the called functions.
    """
    make_model = build_model if asks_model else _later
    parts = await asyncio.to_thread(lambda: build_parts(load_settings(**overrides), make_model))
    async with open_threads(parts.settings) as threads:
        try:
            yield Runtime(parts, threads)
        finally:
            await asyncio.to_thread(parts.close)


def _later(settings: Settings) -> BaseChatModel:
    return DeferredChatModel(label=settings.chosen_model, build=lambda: build_model(settings))
