"""Threads of this process, whose sandboxes run on a cluster."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from langchain_core.runnables import RunnableLambda

from agent.config import build_backend, load_settings
from agent.parts import DeferredCaptures, captures_of
from libs.backends.docker import DockerExecutionBackend
from libs.sandbox import RunResult, SandboxError
from tests.support.sandboxes import IMAGE

__all__ = ["ClusterThreads", "cluster_threads"]


class ClusterThreads:
    """Carries out steps of threads as the deep agent does."""

    def __init__(self, backend: DockerExecutionBackend, captures: DeferredCaptures) -> None:
        self.backend = backend
        self.captures = captures

    async def step(self, command: str, thread: str = "t") -> tuple[RunResult, str]:
        """Run a command and keep its files. Return its result, and what could not be kept."""
        work = RunnableLambda(self._run)
        try:
            result = await work.ainvoke(command, {"configurable": {"thread_id": thread}})
        finally:
            await self.captures.after_step(thread)
            note = await self.captures.unkept(thread)
        return result, note

    async def _run(self, command: str) -> RunResult:
        return await self.backend.sandbox.arun(command, key=secrets.token_hex(8), note_new=True)

    async def elsewhere(self, command: str, thread: str = "t", tries: int = 20) -> RunResult:
        """Repeat a step until it does not end with an error of the sandbox. Return its result."""
        for left in reversed(range(tries)):
            try:
                return (await self.step(command, thread))[0]
            except SandboxError:
                if not left:
                    raise
        raise AssertionError

    def node(self, thread: str = "t") -> str:
        """Return the node of a thread's sandbox: host name and address."""
        return self.backend.sandbox_of(thread).node


@contextmanager
def cluster_threads(address: str, folder: Path, **settings: Any) -> Iterator[ClusterThreads]:
    """Make threads, with their snapshots in a folder, which must be the working directory."""
    defaults = {
        "workspace_dir": folder / "workspace",
        "snapshots_url": str(folder / "snapshots"),
        "sandbox_cluster": address,
        "sandbox_scope": "thread",
        "sandbox_image": IMAGE,
        "sandbox_warm": 0,
    }
    read = load_settings(None, **{**defaults, **settings})
    built = build_backend(read)
    backend, captures = built.default, captures_of(read, built)
    assert isinstance(backend, DockerExecutionBackend)
    assert captures is not None
    try:
        with backend:
            yield ClusterThreads(backend, captures)
    finally:
        ray.shutdown()
