"""LangChain middleware that lists the skills in the system prompt of every model call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from deepagents.backends.state import StateBackend
from deepagents.middleware.skills import SkillsMiddleware as DeepagentsSkillsMiddleware
from langchain.agents.middleware.types import AgentMiddleware, AgentState, ModelRequest, ModelResponse

from libs.middleware.prompt_section import with_section
from libs.middleware.skills.skill_files import Skill, SkillFolders, discover_skills
from libs.middleware.skills.skill_prompt import render_skills

__all__ = ["Skill", "SkillsMiddleware", "discover_skills"]


class SkillsMiddleware(DeepagentsSkillsMiddleware[Any, Any]):
    """Lists the current skills on every turn.

    The class has the name of deepagents' own middleware, so `create_deep_agent` replaces that one, in the
    main agent and the general-purpose subagent. This class reads the folders on the host (which the sandbox
    mounts read-only), sees changes in the middle of a thread, uses one line for each skill, and lists broken
    skills with the reason. The thread's state holds nothing. Pinned skills and skill tools of deepagents are
    not offered.

    Args:
        source: a folder of skills on the host; or a map from paths in the sandbox to such folders, where the
            first folder has precedence; or a list of skills, which is used as given.
        mount: the path of a single `source` in the sandbox.
        prompt_chars: upper bound of the section in characters, at least 2,000.
        trusted: skills from outside that may be used (see `SkillFolders`). None trusts all.

    Raises:
        ValueError: `prompt_chars` is too small.
    """

    # Skills are read from disk at each turn, so the hooks that load them into the state are not needed.
    # `create_agent` adds a graph node only for a hook that differs from the hook of `AgentMiddleware`.
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
        # deepagents requires sources and a backend. Nothing is loaded from this empty backend.
        sources = list(roots) if isinstance(roots, Mapping) else [mount]
        super().__init__(backend=StateBackend(), sources=sources, system_prompt=None)
        self.section()  # logs broken skills and checks `prompt_chars` before the first run

    @property
    def skills(self) -> tuple[Skill, ...]:
        """The current skills, unusable ones with their `problem`. Blocks on the disk."""
        return self._folders.scan() if self._folders else self._ready

    def section(self) -> str:
        """Return the text for the system prompt, or "" without skills. Blocks on the disk."""
        return render_skills(self.skills, max_chars=self._prompt_chars)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Add the section to the system prompt, if there are skills."""
        return handler(with_section(request, self.section()))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """As `wrap_model_call`. The disk is read in a thread."""
        return await handler(with_section(request, await asyncio.to_thread(self.section)))
