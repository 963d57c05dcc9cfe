"""Decides on commands by what they have done. What that needs is imported at the first call."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from agent.parts.workspace_captures import DeferredCaptures, captures_of
from agent.secrets import secret_filter
from agent.settings import Settings
from libs.sandbox import MAX_TIMEOUT, RunResult
from libs.sandbox.host import carrying, failed_result

if TYPE_CHECKING:
    from libs.backends import WorkspaceBackend
    from libs.backends.docker import DockerExecutionBackend
    from libs.middleware.approvals import Decided, GateRules, Held, Request
    from libs.middleware.approvals.effects import EffectCalls

__all__ = ["CommandEffects", "command_effects"]

_EXECUTE = "execute"


def command_effects(settings: Settings, backend: WorkspaceBackend) -> CommandEffects | None:
    """Return what decides on commands by their effects; None if nobody is asked, or there is no container."""
    captures = captures_of(settings, backend)
    if captures is None or settings.approvals == "auto":
        return None
    if settings.approvals == "effects":
        captures.let_one_in()
    return CommandEffects(settings, backend, captures)


class CommandEffects:
    """See `libs.middleware.approvals.Effects`.

    With APPROVALS=ask, no command runs at once. But a question that waits since APPROVALS was `effects` is
    decided as it was asked.
    """

    def __init__(self, settings: Settings, backend: WorkspaceBackend, captures: DeferredCaptures) -> None:
        self._settings = settings
        self._backend = backend
        self._captures = captures

    def covers(self, request: Request) -> bool:
        """Return whether a call can run at once: a call of `execute` with valid arguments."""
        if self._settings.approvals != "effects" or request.name != _EXECUTE:
            return False
        timeout = request.args.get("timeout")
        valid = timeout is None or (type(timeout) is int and 0 < timeout <= MAX_TIMEOUT)
        return valid and isinstance(request.args.get("command"), str)

    async def begun(self, keys: Collection[str]) -> set[str]:
        """Return the keys of calls that have begun to run at once."""
        return await (await self._made()).begun(keys)

    async def decided(
        self, request: Request, key: str, seconds: float, *, gate: GateRules, held: Held | None, state: Any
    ) -> Decided:
        """Run a call, and decide on its effect."""
        calls = await self._made()
        return await calls.decided(request, key, seconds, gate=gate, held=held, state=state)

    async def _made(self) -> EffectCalls:
        # Imports: not on an event loop.
        return await asyncio.to_thread(lambda: self._calls)

    @functools.cached_property
    def _calls(self) -> EffectCalls:
        from libs.middleware.approvals.effects import EffectCalls, free_changes
        from libs.workspace.history import EffectRuns

        is_free = free_changes(self._settings.effects_free)
        redact = secret_filter(self._settings)
        sandbox_of = self._computer.sandbox_of

        async def runs() -> EffectRuns:
            return EffectRuns((await self._captures.made()).captures, sandbox_of, is_free)

        return EffectCalls(runs, self._run, redact=redact or (lambda text: text))

    @property
    def _computer(self) -> DockerExecutionBackend:
        computer: Any = self._backend.default
        found: DockerExecutionBackend = computer
        return found

    async def _run(self, request: Request, key: str, seconds: float) -> RunResult:
        """Run a command as the tool `execute` does, so that the tool finds its result under the key."""
        asked = request.args.get("timeout") or self._settings.sandbox_timeout
        with carrying(request.call_id, key, alone=True) as call:
            try:
                await self._computer.aexecute(request.args["command"], timeout=min(asked, max(seconds, 1.0)))
            except ValueError as error:  # such as half a character
                return failed_result(str(error))
        return RunResult(**(call.artifact or {}))
