"""Records who or what decided on each gated call, in a file that only grows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from langgraph.config import get_config

from libs.middleware.approvals.decisions import Decision, Edit
from libs.middleware.approvals.grants import Granted
from libs.middleware.approvals.question import Request, digest
from libs.middleware.approvals.rules import Denied, Rule

__all__ = ["DecisionLog", "decision_record", "rule_record"]


def decision_record(request: Request, decision: Decision | Granted | Denied) -> dict[str, Any]:
    """Return the record of a decision, as JSON. Call this function inside a node.

    `digest` is that of the question. Arguments are not recorded, because they may hold private data.
    """
    configurable = get_config()["configurable"]
    match decision:
        case Denied(rule=rule):
            made = {"decision": "deny", "by": "rule", "rule": rule}
        case Granted(scope="rule", rule=rule):
            made = {"decision": "approve", "by": "rule", "rule": rule}
        case Granted(scope="effect"):
            made = {"decision": "approve", "by": "effect"}
        case Granted(scope=scope):
            made = {"decision": "approve", "by": "grant", "scope": scope}
        case _:
            owner = configurable.get("langgraph_auth_user_id")
            made = {"decision": decision.type, "by": "person", **({"owner": str(owner)} if owner else {})}
    if isinstance(decision, Edit):
        made["ran"] = digest(decision.edited_action.name, decision.edited_action.args, request.call_id)
    return {
        "time": _now(),
        "thread": str(configurable.get("thread_id") or ""),
        "call": request.call_id,
        "tool": request.name,
        "digest": request.digest,
        **made,
    }


def rule_record(
    decision: Literal["add rule", "remove rule"],
    rule: Rule,
    *,
    thread: str = "",
    request: Mapping[str, Any] = {},
    owner: str = "",
) -> dict[str, Any]:
    """Return the record of a rule that a person has added or removed, as JSON.

    Args:
        decision: what the person did.
        rule: the rule.
        thread: the thread of the question at which the rule was added.
        request: the call of that question, from its `action_requests`.
        owner: owner of the person's token.
    """
    return {
        "time": _now(),
        "thread": thread,
        "call": str(request.get("id") or ""),
        "tool": rule.tool,
        "digest": str(request.get("digest") or ""),
        "decision": decision,
        "by": "person",
        "rule": str(rule),
        **({"owner": owner} if owner else {}),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class DecisionLog:
    """A file with one JSON object a line, which only its owner can read (mode 0600).

    A decision that is repeated after a kill may be recorded twice.
    """

    path: Path

    def add(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Append records; blocks.

        Raises:
            OSError: the file cannot be written. No call runs whose decision is not recorded.
        """
        if not records:
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lines = "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(self.path, flags, 0o600)
        try:
            os.write(file, lines.encode(errors="replace"))  # one write: lines of other processes stay whole
        finally:
            os.close(file)

    def of_thread(self, thread: str) -> list[dict[str, Any]]:
        """Return the records of a thread, the oldest first; blocks."""
        if not self.path.exists():
            return []
        with self.path.open(encoding="utf-8", errors="replace") as file:
            records = [json.loads(line) for line in file if line.endswith("\n")]
        return [record for record in records if record["thread"] == thread]
