"""Progressive disclosure of skills: a line each in the system prompt, the rest read when needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from deepagents.backends.state import StateBackend
from deepagents.middleware.skills import SkillsMiddleware as DeepagentsSkillsMiddleware
from langchain.agents.middleware.types import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.messages import SystemMessage

from .skill_files import Problem, Skill, SkillFolders, discover_skills, validate_skills
from .skill_prompt import render_skills

__all__ = ["Problem", "Skill", "SkillsMiddleware", "discover_skills", "validate_skills"]


class SkillsMiddleware(DeepagentsSkillsMiddleware[Any, Any]):
    """Tells the model, on every turn, which skills there are now.

    The class carries the name of deepagents' own, and so takes its place in `create_deep_agent`, in the
    main agent and in the general-purpose subagent. Unlike it, this one reads the host's folders (which the
    sandbox mounts read-only), sees a skill added, changed or removed in the middle of a thread, keeps
    each skill to one line, and shows a broken one with its reason. It keeps nothing in the state of a
    thread and does not offer deepagents' pinned skills or skill tools.

    Args:
        source: a folder of skills on the host, shown at `mount`; or several, each under the path the
            sandbox shows it at, the first having precedence where two skills share a name; or a ready
            list, which is never read again.
        mount: where the sandbox shows a single `source`.
        prompt_chars: upper bound of the section in characters, at least 2,000.
        trusted: the skills of mounts other than `/skills` that may be used, each as `<folder of skills>/<its
            folder>`, or as `<its folder>` alone. The others are listed as unavailable with what to set, and
            nothing they say of themselves is shown. None trusts all. A ready list is taken as it is.

    Raises:
        ValueError: `prompt_chars` is too small.
    """

    # What deepagents loads into a thread's state before a run is read from disk at each turn instead.
    # `create_agent` adds a graph node only for a hook that differs from the one of `AgentMiddleware`.
    state_schema = AgentState  # type: ignore[assignment]
    before_agent = AgentMiddleware.before_agent  # type: ignore[assignment]
    abefore_agent = AgentMiddleware.abefore_agent  # type: ignore[assignment]
    before_model = AgentMiddleware.before_model
    abefore_model = AgentMiddleware.abefore_model
    wrap_tool_call = AgentMiddleware.wrap_tool_call
    awrap_tool_call = AgentMiddleware.awrap_tool_call

    def __init__(
        self,
        source: str | Path | Mapping[str, Path] | Sequence[Skill],
        *,
        mount: str = "/skills",
        prompt_chars: int = 16_000,
        trusted: Collection[str] | None = None,
    ) -> None:
        roots = {mount: Path(source)} if isinstance(source, str | Path) else source
        self._prompt_chars = prompt_chars
        self._folders: SkillFolders | None = None
        self._ready: tuple[Skill, ...] = ()
        if isinstance(roots, Mapping):
            self._folders = SkillFolders(roots, trusted=trusted)
        else:
            self._ready = tuple(roots)
        # deepagents asks for the sources to find the slot; it loads nothing from this empty backend.
        sources = list(roots) if isinstance(roots, Mapping) else [mount]
        super().__init__(backend=StateBackend(), sources=sources, system_prompt=None)
        self.section()  # a bad skill is logged, and a bad bound raised, before the first run

    @property
    def skills(self) -> tuple[Skill, ...]:
        """The skills there are now, unusable ones with their `problem`; blocks on the disk."""
        return self._folders.scan() if self._folders else self._ready

    def section(self) -> str:
        """The text added to the system prompt, "" where there are no skills; blocks on the disk."""
        return render_skills(self.skills, max_chars=self._prompt_chars)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Add the section to the system prompt; without skills the request goes on as it came."""
        return handler(_with_section(request, self.section()))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """As `wrap_model_call`, with the disk looked at in a thread."""
        return await handler(_with_section(request, await asyncio.to_thread(self.section)))


def _with_section(request: ModelRequest[Any], section: str) -> ModelRequest[Any]:
    if not section:
        return request
    before = request.system_message.content_blocks if request.system_message else []
    text = f"\n\n{section}" if before else section
    return request.override(
        system_message=SystemMessage(content_blocks=[*before, {"type": "text", "text": text}])
    )
