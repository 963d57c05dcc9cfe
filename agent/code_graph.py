"""The code-block agent: it writes Python and bash blocks in its replies and reads their output."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel, BaseLLM
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from langgraph.types import Checkpointer

from agent.config import INTERRUPT_ON, build_backend, build_model, given_or_loaded
from agent.listing import LISTING_SECONDS, absent, data_listing, named_paths
from agent.models import is_local
from agent.parts import (
    AgentsFile,
    block_effects,
    captures_of,
    checked_rules,
    decision_log,
    graph_of,
    prepared,
    run_budget,
    servers_of,
    servers_text,
    stream_transformers,
)
from agent.prompts import absent_section, agents_section, code_prompt, example_turns
from agent.secrets import clean_input, provider_errors, secret_filter, suspected
from agent.settings import Settings
from agent.skills import Growth, build_growth, decisions_about
from libs.backends import WorkspaceBackend
from libs.backends.docker import DockerExecutionBackend, live_output
from libs.code_blocks import EDITS, CodeLoop, Ending, Files, SandboxRunner
from libs.middleware.approvals import AddressedGraph, answer_by_id
from libs.middleware.skills import SkillFolders, render_skills
from libs.sandbox import Sandbox, SandboxError

__all__ = ["build_graph", "graph", "stream_transformers"]

_RESULT = re.compile(r"(?:/workspace)?/results/[^%]*\w\.[A-Za-z]\w{0,4}")
_MOST_MADE = 20


def build_graph(
    model: BaseChatModel | BaseLLM | str | None = None,
    *,
    checkpointer: Checkpointer = None,
    settings: Settings | None = None,
    backend: WorkspaceBackend | None = None,
    max_steps: int = 10,
) -> AddressedGraph:
    """Build the code-block agent. Needs neither Docker nor a key before the first use.

    Args:
        model: a chat model, a plain text generator, or a name in the form of MODEL. Default: the settings'
            model.
        checkpointer: keeps threads and pending approvals. LangGraph's server brings its own.
        settings: the settings. Default: environment and `.env`.
        backend: the computer, if the caller starts and stops it. Default: a new computer.
        max_steps: most replies of the model in one run.

    Raises:
        SettingsError: a setting, or the name of the model, is wrong.
        TypeError: `model` or `settings` has another type.
        ScriptError: the file in `scripted:<file>` is not a script.
        TypeError: the backend has no container.
        ValueError: `max_steps` is not positive.
    """
    settings = prepared(given_or_loaded(settings))
    if not isinstance(model, BaseChatModel | BaseLLM):
        model = build_model(settings, model)
    known = secret_filter(settings)
    backend = backend or build_backend(settings)
    computer = _computer(backend)
    growth = build_growth(settings, backend)
    skills = SkillFolders(settings.skill_folders, trusted=settings.skills_trusted)
    agents_file = AgentsFile(settings)
    servers = servers_of(settings)
    local = is_local(model)

    async def opening(absent_paths: Sequence[str]) -> list[AnyMessage]:
        found, notes, data, about_servers = await asyncio.gather(
            asyncio.to_thread(skills.scan),
            asyncio.to_thread(agents_file.text),
            data_listing(computer.sandbox),
            servers_text(servers),
        )
        section = render_skills(
            found,
            max_chars=settings.skills_prompt_chars,
            steps=code_prompt.SKILL_STEPS,
            example="" if local else code_prompt.SKILL_EXAMPLE,
        )
        tables = any(skill.name == "tables" and skill.problem is None for skill in found)

        def system(**shown: Any) -> SystemMessage:
            text = code_prompt.system_prompt(
                settings,
                skills=section,
                servers=about_servers,
                notes=agents_section(notes),
                tables=tables,
                **shown,
            )
            return SystemMessage(text)

        missing = absent_section(absent_paths)

        # The examples use the library `tables`.
        if not (local and tables):
            return [system(data=data, absent=missing)]
        turns = await asyncio.to_thread(example_turns)  # reads a file
        files = "\n\n".join(filter(None, (code_prompt.data_section(data), missing)))
        return [system(example=False), *turns, *([HumanMessage(files)] if files else [])]

    captures = captures_of(settings, backend)
    loop = CodeLoop(
        model=model,
        runner=SandboxRunner(lambda: computer.sandbox, timeout=settings.sandbox_timeout, suspect=suspected),
        opening=opening,
        absent_paths=lambda task: absent(computer.sandbox, named_paths(task)),
        files=Files(lambda text: _absent(computer.sandbox, text), lambda: _made(computer.sandbox)),
        budget=run_budget(settings),
        approvals=None if settings.approvals == "auto" else INTERRUPT_ON,
        interrupt_mode=settings.interrupt_mode,
        rules=checked_rules(settings),
        decision_log=decision_log(),
        effects=block_effects(settings, backend),
        ending=_proposed_skills(growth) if growth else None,
        captures=captures,
        live=live_output,
        max_steps=max_steps,
        one_block=local,
        errors=provider_errors(known),
    )
    return answer_by_id(
        loop.graph(checkpointer=checkpointer, name="code_agent"),
        edits=EDITS,
        clean=clean_input(known),
        files=captures,
    )


def _computer(backend: WorkspaceBackend) -> DockerExecutionBackend:
    computer = backend.default
    if not isinstance(computer, DockerExecutionBackend):
        raise TypeError(f"code blocks run in a container, and {type(computer).__name__} has none")
    return computer


async def _absent(sandbox: Sandbox, text: str) -> list[str]:
    """Return the files in /results that a text names and that do not exist."""
    return await absent(sandbox, named_paths(text, _RESULT))


async def _made(sandbox: Sandbox) -> list[str]:
    """Return the newest files in /results."""
    newest = (
        f"find /results/ -type f -printf '%T@ %p\\n' | sort -rn | head -n {_MOST_MADE} | cut -d ' ' -f 2-"
    )
    try:
        result = await sandbox.arun(newest, timeout=LISTING_SECONDS, merge_stderr=False)
    except SandboxError:
        return []
    return result.output.splitlines()[:_MOST_MADE] if result.exit_code == 0 else []


def _proposed_skills(growth: Growth) -> Ending:
    return Ending(
        growth.objections,
        growth.offers,
        lambda offers: growth.settle(offers, decisions_about(offers, growth.interrupt_mode)),
    )


graph: AddressedGraph
__getattr__ = graph_of(globals(), build_graph)
