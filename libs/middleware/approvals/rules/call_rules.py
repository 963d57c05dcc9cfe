"""Apply the rules of a file to the calls of a reply."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from libs.middleware.approvals.rules.rule import RULED
from libs.middleware.approvals.rules.rules import Rules, RulesError, Verdict
from libs.middleware.approvals.rules.rules_file import RulesFile

__all__ = ["CallRules", "Denied", "read_rules", "read_rules_now"]


@dataclass(frozen=True, slots=True)
class Denied:
    """A call that a rule denies, or that cannot run because the rules cannot be read."""

    reason: str
    """Text for the model: why the call was not run."""
    rule: str
    """The rule, or the error of the rules file."""


@dataclass(frozen=True, slots=True)
class CallRules:
    """The rules at one moment, or the reason why there are none."""

    rules: Rules | RulesError

    @property
    def digest(self) -> str:
        """Digest of the rules, which is saved with a reply. Only the same rules can allow its calls later.

        A rule that is written or removed while a question waits therefore does not answer the question.
        """
        return self.rules.digest if isinstance(self.rules, Rules) else "unreadable"

    def verdict(self, tool: str, args: Mapping[str, Any], at_reply: str | None) -> Verdict | Denied:
        """Return what the rules say about a call.

        Args:
            tool: name of the tool.
            args: arguments of the call.
            at_reply: `digest` at the time of the reply.
        """
        if isinstance(self.rules, RulesError):
            if tool not in RULED:
                return Verdict("ask")
            text = "The rules of this installation cannot be read. No such call runs before a person mends"
            return Denied(f"{text} the file: {self.rules}", str(self.rules))
        verdict = self.rules.verdict(tool, args)
        if verdict.decision == "deny":
            text = f"It is denied by {verdict.by}. Nobody can approve it, so do not send it again."
            return Denied(text, verdict.by)
        if verdict.decision == "allow":
            then, now = set((at_reply or "").split()), set(self.rules.digest.split())
            # A rule that was added since decides nothing here. A rule that is gone may have asked.
            if not {rule.digest for rule in verdict.rules} <= then <= now:
                return Verdict("ask")
        return verdict

    def denial(self, tool: str, args: Mapping[str, Any]) -> Denied | None:
        """Return why a call must not run, or None."""
        found = self.verdict(tool, args, None)
        return found if isinstance(found, Denied) else None


def read_rules_now(file: RulesFile) -> CallRules:
    """Return the rules of a file; blocks."""
    try:
        return CallRules(file.rules())
    except RulesError as error:
        return CallRules(error)


async def read_rules(file: RulesFile, calls: Sequence[tuple[str, Mapping[str, Any]]] = ()) -> CallRules:
    """As `read_rules_now`, without blocking the event loop.

    Args:
        file: the file.
        calls: tools and arguments of calls whose verdicts are needed. To read a long command takes seconds.
    """

    def read() -> CallRules:
        rules = read_rules_now(file)
        for tool, args in calls:
            rules.verdict(tool, args, None)  # is remembered
        return rules

    return await asyncio.to_thread(read) if file.path else CallRules(Rules())
