"""Reads AGENTS.md beside `.env`, and shows it to models as deepagents' memory."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deepagents.backends.protocol import BackendProtocol, FileDownloadResponse
from deepagents.middleware.memory import MemoryMiddleware, MemoryState, MemoryStateUpdate
from langchain.agents.middleware.types import ModelRequest
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime

from agent.prompts import AGENTS_FILE
from agent.secrets import secret_filter
from agent.settings import Settings

__all__ = ["AgentsFile", "ShowsAgentsFile"]

logger = logging.getLogger(__name__)

MOST_CHARS = 32_000
_MOST_BYTES = 4 * MOST_CHARS
"""Most bytes of the file that are read, with comments."""
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Notes:
    """The content of AGENTS.md, and a problem with the file."""

    text: str = ""
    """The content without comments and known secrets. If the end of the file is missing, the text says so."""
    problem: str = ""
    """A problem that a person should solve, or ""."""
    hint: str = ""
    """How to solve the problem."""


class AgentsFile:
    """The file AGENTS.md beside `.env`, in the working directory if there is no `.env`.

    A file in the workspace, or a link to one, is never read, because agents can write there.
    """

    def __init__(self, settings: Settings) -> None:
        self.path = settings.agents_file
        self._workspace = settings.workspace_dir.absolute()
        self._redact: Callable[[str], str] = secret_filter(settings) or str
        self._logged = ""

    def text(self) -> str:
        """Return the text for a prompt. A problem with the file is logged once, and again after a change."""
        notes = self.read()
        if notes.problem not in ("", self._logged):
            logger.warning("%s. %s", notes.problem, notes.hint)
        self._logged = notes.problem
        return notes.text

    def read(self) -> Notes:
        """Read the file. Every problem is in the result; nothing raises."""
        if self.path is None or not os.path.lexists(self.path):
            return Notes()
        try:
            places = (self.path.parent.resolve(), self.path.resolve())
            if any(place.is_relative_to(self._workspace.resolve()) for place in places):
                why = f"{self.path} is not read: it is in the workspace, where an agent could change it"
                return Notes(problem=why, hint="Move it, or choose another folder with WORKSPACE_DIR.")
            if not self.path.is_file():
                return Notes(problem=f"{self.path} is not a file", hint="Replace it by a text file.")
            with self.path.open("rb") as file:
                found = file.read(_MOST_BYTES + 1)
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
            return Notes(problem=f"{self.path} cannot be read: {error}", hint="Let this user read it.")
        longer = len(found) > _MOST_BYTES
        if longer:  # whole lines, because a part of a secret would not be redacted
            found = found[: found.rfind(b"\n", 0, _MOST_BYTES) + 1 or _MOST_BYTES]
        text = _COMMENT.sub("", found.decode("utf-8-sig", errors="replace"))
        if longer:
            text = text.partition("<!--")[0]  # a comment whose end was not read
        text = self._redact(text).strip()
        kept = f"{len(found):,} bytes without comments" if longer else ""
        if len(text) > MOST_CHARS:
            text, kept = text[:MOST_CHARS], f"{MOST_CHARS:,} characters"
        if kept:
            return Notes(
                f"{text}\n[AGENTS.md is longer: only its first {kept} are here.]",
                f"{self.path} is too long: models get only its first {kept}",
                "Shorten it. Notes that only some tasks need can be a skill.",
            )
        try:
            found.decode()
        except UnicodeDecodeError:
            why = f"{self.path} is not UTF-8: models get \ufffd in place of other bytes"
            return Notes(text, why, "Save it as UTF-8.")
        return Notes(text)


class ShowsAgentsFile(MemoryMiddleware[Any, Any]):
    """deepagents' memory with AGENTS.md as its only source. The file is read at the beginning of each run.

    The agent's own backend does not have the file, so no tool can change it.
    """

    def __init__(self, file: AgentsFile) -> None:
        super().__init__(backend=_OneFile(file), sources=["AGENTS.md"], system_prompt=AGENTS_FILE)

    # LangChain also passes the config to methods that take it, as deepagents' methods do.
    def before_agent(  # type: ignore[override]
        self,
        state: MemoryState,  # noqa: ARG002
        runtime: Runtime[Any],
        config: RunnableConfig,
    ) -> MemoryStateUpdate | None:
        # With the state, deepagents would read the file only once in a thread.
        return super().before_agent({"messages": []}, runtime, config)

    async def abefore_agent(  # type: ignore[override]
        self,
        state: MemoryState,  # noqa: ARG002
        runtime: Runtime[Any],
        config: RunnableConfig,
    ) -> MemoryStateUpdate | None:
        return await super().abefore_agent({"messages": []}, runtime, config)

    def modify_request(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Add the section, but only if there are notes: deepagents would add an empty section."""
        return super().modify_request(request) if request.state.get("memory_contents") else request


class _OneFile(BackendProtocol):
    """A backend that can read AGENTS.md and do nothing else."""

    def __init__(self, file: AgentsFile) -> None:
        self._file = file

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        text = self._file.text()
        if not text:
            return [FileDownloadResponse(path, error="file_not_found") for path in paths]
        return [FileDownloadResponse(path, content=text.encode()) for path in paths]
