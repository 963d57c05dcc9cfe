"""Lets a person turn an answer into a rule: choose the rule, see its text, and have it written."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent.parts import RuleBook
from agent.terminal.harmless_text import harmless
from libs.middleware.approvals import NoRule, Offer, RulesError, visible
from libs.sandbox import program

if TYPE_CHECKING:
    from agent.terminal.typed_answers import TypedAnswers

__all__ = ["write_rule"]

_BROAD = "A rule for … covers every further word, so all that the program does with it:\n"


async def write_rule(
    request: Mapping[str, Any], rules: RuleBook, answers: TypedAnswers, *, thread: str
) -> bool:
    """Write the rule that a person chooses for a call. Return whether a rule was written.

    Raises:
        LeftPending: the person closed the input or pressed Ctrl-C.
    """
    try:
        offers = await asyncio.to_thread(rules.offers, request)
        offer = await _chosen(offers, answers)
        if offer is None:
            return False
        lines = "".join(f"  {line}\n" for line in visible(offer.text).splitlines())
        _say(f"To be added to {rules.path}:\n{lines}")
        if not await _agreed(answers):
            return False
        rule = await asyncio.to_thread(rules.add, request, offer.text, thread=thread)
    except (NoRule, RulesError) as error:
        _say(f"No rule was written: {error}\n")
        return False
    except OSError as error:
        _say(f"The rule is in {rules.path}, but could not be recorded: {error}\n")
        return False
    _say(
        f"Written. Calls of later replies run without a question. To remove the rule: "
        f"{program()} approvals revoke --rule {rule.number}\n"
    )
    return True


async def _chosen(offers: list[Offer], answers: TypedAnswers) -> Offer | None:
    if len(offers) == 1:
        if offers[0].rule.tool == "execute":
            _say("No prefix covers this command alone, so the rule is for exactly this text.\n")
        return offers[0]
    listed = "".join(f"  {at}  {visible(offer.label)}\n" for at, offer in enumerate(offers, 1))
    prompt = f"{_BROAD}{listed}Which rule? 1 to {len(offers)}, or [n]one: "
    while (key := (await answers.choice(harmless(prompt))).lower()) not in ("n", "none"):
        if key.isdecimal() and 0 < int(key) <= len(offers):
            return offers[int(key) - 1]
        _say(f"Please answer a number from 1 to {len(offers)}, or n.\n")
    return None


async def _agreed(answers: TypedAnswers) -> bool:
    question = "Write this rule, and approve this call? [y]es, or [n]o and ask again: "
    while (key := (await answers.choice(question)).lower()) not in ("y", "yes", "n", "no"):
        _say("Please answer y or n.\n")
    return key.startswith("y")


def _say(text: str) -> None:
    sys.stdout.write(harmless(text))
    sys.stdout.flush()
