"""Finds proposed skills when a run ends, asks a person, and keeps approved skills (SKILLS_EVOLVE)."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from agent.settings import LEARNED, Settings
from agent.skills import pack_proposals
from libs.backends.docker import DockerExecutionBackend
from libs.middleware.approvals import (
    Approve,
    Decision,
    GateRules,
    Granted,
    InterruptMode,
    Reject,
    Request,
    ask,
)
from libs.middleware.skills import MOST_PACKED, Proposal, SkillOverlay, problems_of, read_proposals
from libs.sandbox import LEARNED_MOUNT, OWN_MOUNT, SandboxError

if TYPE_CHECKING:
    from libs.backends import WorkspaceBackend
    from libs.sandbox.host import ChannelSandbox

__all__ = ["ADOPT", "Growth", "Offer", "build_growth", "decisions_about"]

logger = logging.getLogger(__name__)

ADOPT = "adopt_skill"
"""Name of the approval request. There is no tool of this name."""
_MOST_OFFERS = 5
"""Most skills of one question, because a person has to read them. The next run asks about the others."""
_LOOK_SECONDS = 20.0
_PROGRAM = Path(pack_proposals.__file__).read_text(encoding="utf-8")
_LOOK = f"set -C; python3 -I -c {shlex.quote(_PROGRAM)} /workspace/skills >"
"""-I: the program does not import a json.py in /workspace."""
_OBJECTION = (
    "What you propose in /workspace/skills cannot be a skill yet. Mend it, or remove the folder; then give "
    "your answer again:"
)


class Offer(TypedDict):
    """A proposal in the state of a thread, about which a person is asked."""

    name: str
    files: dict[str, str]
    replaces: str
    """Path in the sandbox of the skill that the proposal replaces; "" for a new skill."""


@dataclass(frozen=True)
class Growth:
    """Finds, checks and keeps the proposals in the workspace of the current thread.

    Args:
        folders: every folder of skills: path inside the sandbox -> folder on the host.
        asks: whether a person can be asked. If not, no skill is kept.
        interrupt_mode: how the person is asked about several skills.
    """

    computer: DockerExecutionBackend
    folders: Mapping[str, Path]
    asks: bool
    interrupt_mode: InterruptMode = "batched"
    told: set[str] = field(default_factory=set)
    """Digests of faulty proposals that were reported to a model."""

    async def objections(self) -> str | None:
        """Return a message for the model about faulty proposals; None without any.

        Each is reported once, so that later runs need not mend an old folder.
        """
        said = []
        for proposal in await self._found():
            problems = await asyncio.to_thread(self._problems, proposal)
            if problems and proposal.digest not in self.told:
                self.told.add(proposal.digest)
                said.append(f"- {proposal.name}: {' '.join(problems)}")
        return "\n".join([_OBJECTION, *said]) if said else None

    async def offers(self) -> list[Offer]:
        """Return the proposals for a person's decision.

        The offers hold the files, because the folder may change before the person answers.
        """
        if not self.asks:
            return []
        fit = [each for each in await self._found() if not await asyncio.to_thread(self._problems, each)]
        return [
            Offer(
                name=each.name,
                files=dict(each.files),
                replaces=await asyncio.to_thread(self._replaced, each.name),
            )
            for each in fit[:_MOST_OFFERS]
        ]

    async def settle(self, offers: Sequence[Offer], decisions: Sequence[Decision | Granted | None]) -> str:
        """Keep approved skills, remember refused ones, and return a text about both."""
        lines = []
        overlay = await asyncio.to_thread(_overlay)
        for offer, decision in zip(offers, decisions, strict=True):
            proposal = Proposal(offer["name"], offer["files"])
            kept = isinstance(decision, Approve)
            try:
                await asyncio.to_thread(overlay.adopt if kept else overlay.refuse, proposal)
            except OSError as error:
                lines.append(f"The skill {proposal.name} could not be kept: {error.strerror}.")
                continue
            if kept:
                lines.append(f"The skill {proposal.name} is kept: {LEARNED_MOUNT}/{proposal.name}/SKILL.md.")
            else:
                reason = decision.message if isinstance(decision, Reject) else None
                lines.append(f"The skill {proposal.name} was refused: {reason or 'no reason was given'}.")
        return "\n".join(lines)

    async def _found(self) -> list[Proposal]:
        """Return the undecided proposals. Without the folder no sandbox is started."""
        sandbox = self.computer.sandbox
        try:
            if not await asyncio.to_thread(_may_hold_some, sandbox):
                return []
            # To a file, because long output of a command is truncated.
            place = f"/tmp/.proposed-{secrets.token_hex(8)}"  # noqa: S108 - inside
            # Check the size before the file is fetched.
            look = f"{_LOOK} {place} && stat -L -c %s {place}"
            done = await sandbox.arun(look, timeout=_LOOK_SECONDS)
            try:
                if done.exit_code:
                    raise ValueError(done.output)
                if (size := int(done.output)) > MOST_PACKED:
                    raise ValueError(f"they come to {size:,} bytes, and at most {MOST_PACKED:,} are read")
                packed = await sandbox.aread_file(place)
            finally:
                await sandbox.arun(f"rm -f {place}", timeout=_LOOK_SECONDS)
            return await asyncio.to_thread(_undecided, packed)
        except (SandboxError, OSError, ValueError) as error:
            logger.warning("proposed skills cannot be looked at: %s", str(error)[:500])
            return []

    def _problems(self, proposal: Proposal) -> list[str]:
        own = self.folders[OWN_MOUNT]
        libraries = {path.parent.name for path in own.glob("*/__init__.py")}
        libraries |= {path.stem for path in own.glob("*.py")}
        return problems_of(proposal, place=LEARNED_MOUNT, libraries=libraries)

    def _replaced(self, name: str) -> str:
        there = (mount for mount, folder in self.folders.items() if (folder / name).is_dir())
        return next((f"{mount}/{name}" for mount in there), "")


def decisions_about(
    offers: Sequence[Offer], interrupt_mode: InterruptMode
) -> list[Decision | Granted | None]:
    """Ask a person about proposals, each shown whole.

    Call this once in a node, with offers of an earlier node, because LangGraph repeats the node for the
    answer. No grant applies to proposals.

    Raises:
        CheckpointerRequired, GraphInterrupt: see `ask`.
    """
    rules = GateRules({ADOPT: {"allowed_decisions": ["approve", "reject"]}}, interrupt_mode)
    return ask([_request(each) for each in offers], rules)


def _request(offer: Offer) -> Request:
    name, files = offer["name"], offer["files"]
    # One argument for each file, so that each is shown as text.
    shown = {f"{name}/{path}": files[path] for path in sorted(files)}
    replaces = {"takes the place of": offer["replaces"]} if offer["replaces"] else {}
    return Request(ADOPT, {"skill": name, **replaces, **shown}, Proposal(name, files).digest)


def _may_hold_some(sandbox: ChannelSandbox) -> bool:
    from libs.sandbox.docker import DockerSandbox  # imported in a run only

    return not isinstance(sandbox, DockerSandbox) or os.path.lexists(sandbox.root / "skills")


def _overlay() -> SkillOverlay:
    return SkillOverlay(LEARNED.absolute())


def _undecided(packed: bytes) -> list[Proposal]:
    decided = _overlay().decided()
    return [each for each in read_proposals(packed) if each.digest not in decided]


def build_growth(settings: Settings, backend: WorkspaceBackend) -> Growth | None:
    """Make the `Growth` of a backend; None where SKILLS_EVOLVE is off.

    Raises:
        TypeError: the backend has no container.
    """
    if not settings.skills_evolve:
        return None
    computer = backend.default
    if not isinstance(computer, DockerExecutionBackend):
        raise TypeError(f"skills are proposed in a container, and {type(computer).__name__} has none")
    return Growth(computer, settings.skill_folders, settings.approvals != "auto", settings.interrupt_mode)
