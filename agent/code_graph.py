"""The code-block agent: it writes Python and bash in its replies, and reads what they print. No schemas."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from langchain_core.language_models import BaseChatModel, BaseLLM
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from langgraph.types import Checkpointer
from pydantic import BaseModel, ConfigDict

from agent import code_prompt
from agent.config import INTERRUPT_ON, Settings, build_backend, build_model, load_settings
from agent.known_secrets import secret_filter
from agent.listing import LISTING_SECONDS, data_listing
from agent.models import is_local
from agent.page_stream import stream_transformers
from agent.served import graph_of
from agent.sinks import clean_input, provider_errors
from agent.skill_growth import Growth, Offer, build_growth, decisions_about
from agent.suspected import suspected
from agent.worked_examples import example_turns
from libs.backends.docker import DockerExecutionBackend
from libs.backends.docker.live import live_output
from libs.backends.workspace import WorkspaceBackend
from libs.code_blocks import Block, BlockCall, CodeLoop, Earlier, Files, Refused, SandboxRunner
from libs.middleware.answers import AddressedGraph, answer_by_id
from libs.middleware.approvals import Approve, Decision, Reject, Request, ask, require_checkpointer
from libs.middleware.budget import Budget, Meter, Spent
from libs.middleware.grants import Granted, Grants, Held
from libs.middleware.skill_files import SkillFolders
from libs.middleware.skill_prompt import render_skills
from libs.sandbox import SandboxError
from libs.sandbox.protocol import Sandbox

__all__ = ["EDITS", "BlockApprovals", "build_graph", "graph", "stream_transformers"]

_RESULT = re.compile(r"/results/[\w./-]*\w\.[A-Za-z]\w{0,4}\b")
_MAX_NAMED = 20


def build_graph(
    model: BaseChatModel | BaseLLM | str | None = None,
    *,
    checkpointer: Checkpointer = None,
    settings: Settings | None = None,
    backend: WorkspaceBackend | None = None,
    max_steps: int = 10,
) -> AddressedGraph:
    """Build the code-block agent. Needs neither Docker nor a key: both are asked for at their first use.

    Args:
        model: a chat model, a plain text generator, or what MODEL may hold; without it, the settings' one.
        checkpointer: keeps threads and pending approvals. LangGraph's server brings its own.
        settings: without it, those of the environment and `.env`.
        backend: the computer to work on, for a caller that starts and stops it; without it, a new one.
        max_steps: replies of the model in one run.

    Raises:
        SettingsError: a setting has a value it cannot have.
        ScriptError: `scripted:<file>` names a file that is no script.
        TypeError: the backend is no sandbox.
        ValueError: `max_steps` is not positive.
    """
    settings = settings or load_settings()
    if not isinstance(model, BaseChatModel | BaseLLM):
        model = build_model(settings, model)
    known = secret_filter(settings)
    backend = backend or build_backend(settings)
    computer = _computer(backend)
    growth = build_growth(settings, backend)
    skills = SkillFolders(settings.skill_folders, trusted=settings.skills_trusted)
    budget = Budget(
        calls=settings.run_max_calls, seconds=settings.run_max_seconds, tokens=settings.run_max_tokens
    )

    local = is_local(model)

    async def opening() -> list[AnyMessage]:
        found, data = await asyncio.gather(asyncio.to_thread(skills.scan), data_listing(computer.sandbox))
        section = render_skills(found, max_chars=settings.skills_prompt_chars, steps=code_prompt.SKILL_STEPS)
        tables = any(skill.name == "tables" and skill.problem is None for skill in found)

        def system(**shown: Any) -> SystemMessage:
            text = code_prompt.system_prompt(settings, skills=section, tables=tables, **shown)
            return SystemMessage(text)

        # The examples use the library `tables`.
        if not (local and tables):
            return [system(data=data)]
        turns = await asyncio.to_thread(example_turns)  # reads a file: not on the event loop
        listing = [HumanMessage(code_prompt.data_section(data))] if data else []
        return [system(example=False), *turns, *listing]

    def meter(spent: Mapping[str, Any] | None) -> Meter:
        return Meter(budget, spent=cast("Spent | None", spent))

    loop = CodeLoop(
        model,
        SandboxRunner(lambda: computer.sandbox, suspect=suspected),
        opening=opening,
        files=Files(lambda text: _absent(computer.sandbox, text), lambda: _made(computer.sandbox)),
        meter=meter,
        gate=BlockApprovals() if settings.approvals == "ask" else None,
        ending=_ProposedSkills(growth) if growth else None,
        live=live_output,
        max_steps=max_steps,
        one_block=local,
        errors=provider_errors(known),
    )
    return answer_by_id(
        loop.graph(checkpointer=checkpointer, name="code_agent"), edits=EDITS, clean=clean_input(known)
    )


def _computer(backend: WorkspaceBackend) -> DockerExecutionBackend:
    computer = backend.default
    if not isinstance(computer, DockerExecutionBackend):
        raise TypeError(f"code blocks run in a container, and {type(computer).__name__} has none")
    return computer


async def _absent(sandbox: Sandbox, text: str) -> list[str]:
    """The files in /results that a text names and that are not there."""
    named = list(dict.fromkeys(_RESULT.findall(text)))[:_MAX_NAMED]
    if not named:
        return []
    tests = "; ".join(f"[ -e {shlex.quote(name)} ] || echo {shlex.quote(name)}" for name in named)
    try:
        result = await sandbox.arun(tests, timeout=LISTING_SECONDS, merge_stderr=False)
    except SandboxError:
        return []
    return result.output.splitlines() if result.exit_code == 0 else []


async def _made(sandbox: Sandbox) -> list[str]:
    """The newest files in /results."""
    newest = (
        f"find /results/ -type f -printf '%T@ %p\\n' | sort -rn | head -n {_MAX_NAMED} | cut -d ' ' -f 2-"
    )
    try:
        result = await sandbox.arun(newest, timeout=LISTING_SECONDS, merge_stderr=False)
    except SandboxError:
        return []
    return result.output.splitlines()[:_MAX_NAMED] if result.exit_code == 0 else []


class _ExecuteCode(BaseModel):
    """What a person may change a block into."""

    model_config = ConfigDict(extra="forbid", strict=True)

    language: Literal["python", "bash"]
    code: str


EDITS: Mapping[str, type[BaseModel]] = {"execute_code": _ExecuteCode}
"""For `answer_by_id`: what the gate asks of edited blocks."""


class BlockApprovals:
    """The approval gate for blocks: one question a reply, one request a block."""

    def require(self) -> None:
        require_checkpointer()

    def ask(
        self, calls: Sequence[BlockCall], *, grants: Grants, at_reply: Grants
    ) -> list[Block | Earlier | Refused]:
        requests = [
            Request(
                "execute_code",
                {"language": call.block.language, "code": call.block.code},
                call.key,
                _ExecuteCode,
            )
            for call in calls
        ]
        decisions = ask(requests, INTERRUPT_ON, Held(grants, at_reply))
        return [_decided(call.block, decision) for call, decision in zip(calls, decisions, strict=True)]


def _decided(block: Block, decision: Decision | Granted) -> Block | Earlier | Refused:
    match decision:
        case Granted(scope=scope):
            return Earlier(scope)
        case Approve():
            return block
        case Reject(message=reason):
            return Refused(reason or "no reason was given.")
        case edit:
            changed = _ExecuteCode.model_validate(edit.edited_action.args)
            return Block(changed.language, changed.code)


class _ProposedSkills:
    """Implements `libs.code_blocks.ending.Ending`."""

    def __init__(self, growth: Growth) -> None:
        self._growth = growth

    async def objections(self) -> str | None:
        return await self._growth.objections()

    async def prepared(self) -> list[Offer]:
        return await self._growth.offers()

    async def last_words(self, prepared: list[Offer]) -> str:
        return await self._growth.settle(prepared, decisions_about(prepared))


graph: AddressedGraph
__getattr__ = graph_of(globals(), build_graph)
