"""Serves `/page/threads/{thread_id}/rules/{digest}`: offers rules for a call that waits, and writes one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from agent.parts import RuleBook
from agent.server.json_exchange import Refused, answer, endpoint, read_body
from agent.server.method_routes import routes
from agent.server.openapi import described
from agent.server.routes.turn_requests import runtime_of, thread_of
from agent.settings import SettingsError
from libs.middleware.approvals import NoRule, RulesError

__all__ = ["ROUTES"]

T = TypeVar("T")


class _Offer(BaseModel):
    label: str = Field(description="What the rule covers, for a list of choices.")
    rule: str = Field(description="The text that would be added to the rules file.")


class _Offers(BaseModel):
    file: str = Field(description="Path of the rules file.")
    offers: list[_Offer] = Field(description="Prefixes, the shortest first; then the exact text or path.")
    reason: str | None = Field(description="Why there is no offer; null if there is one.")


class _Chosen(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    rule: str = Field(description="Text of an offer.")


class _Written(BaseModel):
    number: int = Field(description="Number of the rule in `code-agent approvals list`.")


_REFUSALS = {
    403: "AUTH_TOKENS has several owners: a rule of one of them would hold for all.",
    404: "There is no such thread, it belongs to another owner, or no such call waits in it.",
    409: "The rules file cannot be read or written, or the rule is not offered any more.",
    500: "The request failed.",
}


@endpoint
@described(
    "Offer rules that would always allow a call that waits",
    path=("thread_id", "digest"),
    answers={200: ("The rules.", _Offers)},
    refusals=_REFUSALS,
)
async def _list(request: Request) -> Response:
    rules, call = await _asked(request)
    offers, reason = [], None
    try:
        found = await _in_thread(lambda: rules.offers(call))
        offers = [_Offer(label=offer.label, rule=offer.text) for offer in found]
    except NoRule as none:
        reason = str(none)
    return answer(_Offers(file=str(rules.path), offers=offers, reason=reason).model_dump())


@endpoint
@described(
    "Write an offered rule to the rules file. The question still waits",
    path=("thread_id", "digest"),
    body=_Chosen,
    answers={200: ("The rule is in the file.", _Written)},
    refusals={400: "The body does not fit.", **_REFUSALS},
)
async def _write(request: Request) -> Response:
    chosen = await read_body(request, _Chosen)
    rules, call = await _asked(request)
    thread, owner = thread_of(request), request.scope.get("owner") or ""
    try:
        rule = await _in_thread(lambda: rules.add(call, chosen.rule, thread=thread, owner=owner))
    except NoRule as none:
        raise Refused(409, str(none)) from None
    except OSError as error:
        raise Refused(500, f"The rule is in the file, but could not be recorded: {error}") from error
    return answer(_Written(number=rule.number).model_dump())


async def _asked(request: Request) -> tuple[RuleBook, Mapping[str, Any]]:
    """Return the rules file, and the call that the path names."""
    runtime = runtime_of(request)
    if runtime.settings.several_owners:
        raise Refused(403, _REFUSALS[403])
    state = await runtime.state(thread_of(request))
    for question in state.interrupts if state else ():
        for call in question.value.get("action_requests", ()):
            if call["digest"] == request.path_params["digest"]:
                return await _in_thread(lambda: runtime.rules), call
    raise Refused(404, "This call does not wait for approval, or not any more.")


async def _in_thread(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except (RulesError, SettingsError) as error:
        raise Refused(409, str(error)) from None


ROUTES = routes("/page/threads/{thread_id}/rules/{digest}", GET=_list, POST=_write)
