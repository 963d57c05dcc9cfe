"""Decides on commands by what they have done. The packages for that are imported at the first call."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any

from agent.parts.workspace_captures import DeferredCaptures, captures_of
from agent.secrets import secret_filter
from agent.settings import Settings
from libs.sandbox import MAX_TIMEOUT, RunResult
from libs.sandbox.host import carrying, failed_result

if TYPE_CHECKING:
    from libs.backends import WorkspaceBackend
    from libs.backends.docker import DockerExecutionBackend
    from libs.middleware.approvals import Decided, Request
    from libs.middleware.approvals.effects import EffectCalls
    from libs.workspace.history import IsFree

__all__ = ["DeferredEffects", "ToolEffects", "block_effects", "command_effects"]

_EXECUTE = "execute"


def command_effects(settings: Settings, backend: WorkspaceBackend) -> ToolEffects | None:
    """Return the object that decides on commands by their effects.

    None if nobody is asked, or if there is no container.
    """
    made = _of_computer(settings, backend, programs=False)
    run = functools.partial(_run_command, settings, backend)
    return ToolEffects(made, covers=_is_command, run=run) if made else None


def block_effects(settings: Settings, backend: WorkspaceBackend) -> DeferredEffects | None:
    """Return the object that decides on code blocks by their effects; None as for `command_effects`."""
    return _of_computer(settings, backend, programs=True)


def _of_computer(settings: Settings, backend: WorkspaceBackend, *, programs: bool) -> DeferredEffects | None:
    captures = captures_of(settings, backend)
    if captures is None or settings.approvals == "auto":
        return None
    if settings.approvals == "effects":
        captures.let_one_in()
    return DeferredEffects(settings, captures, programs=programs)


class DeferredEffects:
    """See `EffectCalls`. Its packages are imported at the first use.

    With APPROVALS=ask, no call runs at once. But a question that waits since APPROVALS was `effects` is
    decided as it was asked.

    Args:
        programs: whether an undo ends the thread's interpreters.
        is_free: returns the function that tells which changes need no approval. Default: EFFECTS_FREE.
    """

    def __init__(
        self,
        settings: Settings,
        captures: DeferredCaptures,
        *,
        programs: bool = False,
        is_free: Callable[[], IsFree] | None = None,
    ) -> None:
        self.at_once = settings.approvals == "effects"
        self._settings = settings
        self._captures = captures
        self._programs = programs
        self._is_free = is_free

    async def begun(self, keys: Collection[str]) -> set[str]:
        """Return the keys of calls that have begun to run at once."""
        return await (await self._made()).begun(keys)

    async def lapse(self) -> None:
        """Undo calls that nobody has decided on, because a person's turn begins."""
        await (await self._made()).lapse()

    async def decided(
        self, request: Request, key: str, run: Callable[[], Awaitable[RunResult]], **more: Any
    ) -> Decided:
        """Run a call, and decide on its effect."""
        return await (await self._made()).decided(request, key, run, **more)

    async def _made(self) -> EffectCalls:
        # Imports: not on an event loop.
        return await asyncio.to_thread(lambda: self._calls)

    @functools.cached_property
    def _calls(self) -> EffectCalls:
        from libs.middleware.approvals.effects import EffectCalls, free_changes
        from libs.workspace.history import EffectRuns

        is_free = self._is_free() if self._is_free else free_changes(self._settings.effects_free)
        redact = secret_filter(self._settings)

        async def runs() -> EffectRuns:
            return EffectRuns((await self._captures.made()).captures, is_free)

        return EffectCalls(runs, redact=redact or (lambda text: text), programs=self._programs)


class ToolEffects:
    """See `libs.middleware.approvals.Effects`.

    Args:
        covers: returns whether a call can run at once.
        run: runs a call as its tool does, so that the tool finds its result under the key. Takes the key, and
            the seconds that are left. Does not raise.
    """

    def __init__(
        self,
        effects: DeferredEffects,
        *,
        covers: Callable[[Request], bool],
        run: Callable[[Request, str, float], Awaitable[RunResult]],
    ) -> None:
        self._effects = effects
        self._covers = covers
        self._run = run

    def covers(self, request: Request) -> bool:
        """Return whether a call can run at once."""
        return self._effects.at_once and self._covers(request)

    async def begun(self, keys: Collection[str]) -> set[str]:
        """Return the keys of calls that have begun to run at once."""
        return await self._effects.begun(keys)

    async def lapse(self) -> None:
        """Undo calls that nobody has decided on, because a person's turn begins."""
        await self._effects.lapse()

    async def decided(self, request: Request, key: str, seconds: float, **more: Any) -> Decided:
        """Run a call for at most some seconds, and decide on its effect."""
        return await self._effects.decided(request, key, lambda: self._run(request, key, seconds), **more)


def _is_command(request: Request) -> bool:
    timeout = request.args.get("timeout")
    valid = timeout is None or (type(timeout) is int and 0 < timeout <= MAX_TIMEOUT)
    return request.name == _EXECUTE and valid and isinstance(request.args.get("command"), str)


async def _run_command(
    settings: Settings, backend: WorkspaceBackend, request: Request, key: str, seconds: float
) -> RunResult:
    asked = min(request.args.get("timeout") or settings.sandbox_timeout, max(seconds, 1.0))
    with carrying(request.call_id, key, alone=True) as call:
        try:
            await _computer_of(backend).aexecute(request.args["command"], timeout=asked)
        except ValueError as error:  # such as half a character
            return failed_result(str(error))
    return RunResult(**(call.artifact or {}))


def _computer_of(backend: WorkspaceBackend) -> DockerExecutionBackend:
    computer: Any = backend.default
    found: DockerExecutionBackend = computer
    return found
