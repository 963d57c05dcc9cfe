"""Skills that agents propose (SKILLS_EVOLVE): looked for when a run ends, asked about, kept."""

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

from agent import pack_proposals
from agent.config import LEARNED, Settings
from libs.backends.docker import DockerExecutionBackend
from libs.middleware.approvals import Approve, DecisionType, Reject, Request, ask
from libs.middleware.decisions import Decision
from libs.middleware.grants import Granted
from libs.middleware.skill_mounts import LEARNED_MOUNT, OWN_MOUNT
from libs.middleware.skill_overlay import SkillOverlay
from libs.middleware.skill_proposals import MOST_PACKED, Proposal, problems_of, read_proposals
from libs.sandbox import SandboxError

if TYPE_CHECKING:
    from libs.backends.workspace import WorkspaceBackend
    from libs.sandbox.base import ChannelSandbox

__all__ = ["ADOPT", "Growth", "Offer", "build_growth", "decisions_about"]

logger = logging.getLogger(__name__)

ADOPT = "adopt_skill"
"""The name under which a person is asked: no tool, so no list of tools has it."""
_OFFERED: Mapping[str, Sequence[DecisionType]] = {ADOPT: ("approve", "reject")}
_MOST_OFFERS = 5
"""Skills of one question: a person is to read all of it. Others are asked about by the next run."""
_LOOK_SECONDS = 20.0
_PROGRAM = Path(pack_proposals.__file__).read_text(encoding="utf-8")
_LOOK = f"set -C; python3 -I -c {shlex.quote(_PROGRAM)} /workspace/skills >"
"""Isolated (-I): a json.py in /workspace is no part of it."""
_OBJECTION = (
    "What you propose in /workspace/skills cannot be a skill yet. Mend it, or remove the folder; then give "
    "your answer again:"
)


class Offer(TypedDict):
    """A proposal that a person is asked about, as the state of a thread keeps it."""

    name: str
    files: dict[str, str]
    replaces: str
    """What it takes the place of, as a path in the sandbox; "" for a new skill."""


@dataclass(frozen=True)
class Growth:
    """Proposals in the workspace of the thread that asks, and what becomes of them.

    Args:
        computer: of the agent.
        folders: path inside the sandbox -> folder on the host, of every folder of skills.
        asks: whether a person can be asked. Where not, nothing is ever kept.
    """

    computer: DockerExecutionBackend
    folders: Mapping[str, Path]
    asks: bool
    told: set[str] = field(default_factory=set)
    """Digests of proposals that a model was told of."""

    async def objections(self) -> str | None:
        """What a model is told of proposals that cannot be skills; None where there is nothing to say.

        Each is told of once: what somebody has left there is not for every later run to mend.
        """
        said = []
        for proposal in await self._found():
            if proposal.digest not in self.told and (problems := await self._problems(proposal)):
                self.told.add(proposal.digest)
                said.append(f"- {proposal.name}: {' '.join(problems)}")
        return "\n".join([_OBJECTION, *said]) if said else None

    async def offers(self) -> list[Offer]:
        """The proposals that a person is to decide about.

        What is asked about, answered perhaps days later, and kept is the same, whatever becomes of the
        folder meanwhile.
        """
        if not self.asks:
            return []
        fit = [each for each in await self._found() if not await self._problems(each)]
        return [
            Offer(name=each.name, files=dict(each.files), replaces=await self._replaced(each))
            for each in fit[:_MOST_OFFERS]
        ]

    async def settle(self, offers: Sequence[Offer], decisions: Sequence[Decision | Granted]) -> str:
        """Keep what was approved, remember what was refused; what is said of it."""
        lines = []
        for offer, decision in zip(offers, decisions, strict=True):
            proposal = Proposal(offer["name"], offer["files"])
            kept = isinstance(decision, Approve)
            try:
                await asyncio.to_thread(_settle, proposal, kept=kept)
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
        """Those that nobody has decided about. Where there is no folder for any, no sandbox is started."""
        sandbox = self.computer.sandbox
        try:
            if not await asyncio.to_thread(_may_hold_some, sandbox):
                return []
            # In a file: of what a command prints, the middle may be left out.
            place = f"/tmp/.proposed-{secrets.token_hex(8)}"  # noqa: S108 - inside
            # Its size first: what is too large is never fetched.
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

    async def _problems(self, proposal: Proposal) -> list[str]:
        def look() -> list[str]:
            own = self.folders[OWN_MOUNT]
            libraries = {path.parent.name for path in own.glob("*/__init__.py")}
            return problems_of(proposal, place=LEARNED_MOUNT, libraries=libraries)

        return await asyncio.to_thread(look)

    async def _replaced(self, proposal: Proposal) -> str:
        def look() -> str:
            there = (mount for mount, folder in self.folders.items() if (folder / proposal.name).is_dir())
            return next((f"{mount}/{proposal.name}" for mount in there), "")

        return await asyncio.to_thread(look)


def decisions_about(offers: Sequence[Offer]) -> list[Decision | Granted]:
    """Ask a person about proposals, all of them whole, as one question. Call it once in a node, with what an
    earlier node has read: this one runs again for the answer.

    Each is asked about by itself: an earlier approval of another one does not count.

    Raises:
        CheckpointerRequired, GraphInterrupt: see `ask`.
    """
    return ask([_request(each) for each in offers], _OFFERED)


def _request(offer: Offer) -> Request:
    name, files = offer["name"], offer["files"]
    # Each file by itself, so that it is shown as the text that it is.
    shown = {f"{name}/{path}": files[path] for path in sorted(files)}
    replaces = {"takes the place of": offer["replaces"]} if offer["replaces"] else {}
    return Request(ADOPT, {"skill": name, **replaces, **shown}, Proposal(name, files).digest)


def _may_hold_some(sandbox: ChannelSandbox) -> bool:
    from libs.sandbox.container import DockerSandbox  # only a run needs it

    return not isinstance(sandbox, DockerSandbox) or os.path.lexists(sandbox.root / "skills")


def _overlay() -> SkillOverlay:
    return SkillOverlay(LEARNED.absolute())


def _undecided(packed: bytes) -> list[Proposal]:
    decided = _overlay().decided()
    return [each for each in read_proposals(packed) if each.digest not in decided]


def _settle(proposal: Proposal, *, kept: bool) -> None:
    if kept:
        _overlay().adopt(proposal)
    else:
        _overlay().refuse(proposal)


def build_growth(settings: Settings, backend: WorkspaceBackend) -> Growth | None:
    """Make it, where the settings let skills grow.

    Raises:
        TypeError: the backend is no sandbox.
    """
    if not settings.skills_evolve:
        return None
    computer = backend.default
    if not isinstance(computer, DockerExecutionBackend):
        raise TypeError(f"skills are proposed in a container, and {type(computer).__name__} has none")
    return Growth(computer, settings.skill_folders, settings.approvals == "ask")
