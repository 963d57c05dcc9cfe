"""Lists rules, grants (approvals for the rest of a thread) and decisions, and revokes grants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from agent.terminal.harmless_text import harmless
from libs.middleware.approvals import Rules, revoke, shown, standing_in

__all__ = ["NoSuchGrant", "decision_lines", "grant_lines", "grants_of", "rule_lines"]


class NoSuchGrant(Exception):
    """The list has no grant of this number."""


async def grants_of(
    threads: BaseCheckpointSaver[Any], thread_id: str, *, revoked: str = ""
) -> list[dict[str, Any]] | None:
    """Return the grants of a thread; None for a thread that does not exist.

    While a grant is revoked, the caller holds the thread.

    Args:
        revoked: what to revoke first: the number of a grant in the list, or `all`.

    Raises:
        NoSuchGrant: the list has no grant of this number.
    """
    saved = await threads.aget_tuple({"configurable": {"thread_id": thread_id}})
    if saved is None:
        return None
    grants = standing_in(saved)
    if revoked:
        keys = list(grants)
        if revoked != "all":
            number = int(revoked) if revoked.isdecimal() else 0
            if not 0 < number <= len(keys):
                raise NoSuchGrant(f"There are {len(keys)} approvals, and no number {revoked}.")
            keys = [keys[number - 1]]
        await revoke(threads, saved, keys)
        grants = {key: grant for key, grant in grants.items() if key not in keys}
    return shown(dict(grants))


def grant_lines(grants: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the numbered list of a thread's grants, line by line."""
    number = 0
    for number, grant in enumerate(grants, 1):
        if grant["digest"] is None:
            yield f"{number}. any call of the tool {grant['tool']}"
        else:
            yield f"{number}. exactly this call:"
            yield from (f"   {line}".rstrip() for line in harmless(str(grant["shown"])).splitlines())
    if not number:
        yield "Nothing is approved for the rest of this thread."


def rule_lines(rules: Rules) -> Iterator[str]:
    """Yield the rules and the file that they come from, line by line."""
    if rules.path is None:
        yield "There is no rules file."
        return
    yield f"{rules.path}: {len(rules.all)} rules"
    yield from (harmless(f"   {rule}") for rule in rules.all)


def decision_lines(records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield who or what decided on the calls of a thread, line by line."""
    for record in records:
        words = [record["by"], record.get("scope"), record.get("owner"), record.get("rule")]
        by = " ".join(filter(None, words[3:] if record["by"] == "rule" else words))
        text = f"{record['time']}  {record['decision']} {record['tool']} {record['digest'][:12]}, by {by}"
        yield harmless(text)
