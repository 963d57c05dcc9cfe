"""`POST /run` and `POST /run/{thread_id}/resume`: the LangGraph agents, for programs that want an answer."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Mapping
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from agent.agents import GRAPH_IDS, AgentName
from agent.explained import explained
from agent.server.exchange import Refused, answer, endpoint, read_object, until_left
from agent.server.fields import include_steps, no_other_keys, task_in
from agent.server.methods import nothing_below, only
from agent.server.openapi import INPUT, STEPS, Schema, described, object_of
from agent.server.runs import Ended, Runs
from libs.persistence.errors import database_errors

__all__ = ["ROUTES"]

logger = logging.getLogger(__name__)

_MAX_ID = 200
"""Characters of a thread's name."""

_STRING: Schema = {"type": "string"}
_ANSWERED = object_of({"output": _STRING, "thread_id": _STRING, "status": _STRING}, steps=STEPS)
_ASKS = object_of(
    {
        "thread_id": _STRING,
        "interrupts": {
            "type": "array",
            "description": "The questions: each value has action_requests and review_configs.",
            "items": object_of({"id": _STRING, "value": {"type": "object"}}),
        },
    }
)
_ANSWERS = {200: ("The answer.", _ANSWERED), 202: ("It wants to run something: decide.", _ASKS)}
_STEPS_FIELD: Schema = {"type": "boolean", "default": False}
_DECISION = object_of({"type": {"enum": ["approve", "reject", "edit"]}})
_DECISIONS: Schema = {"type": "array", "items": _DECISION}


@endpoint
@described(
    "Carry out a task with an agent",
    body=object_of(
        {"input": INPUT},
        closed=True,
        agent={"enum": [*GRAPH_IDS, None]},
        thread_id={"type": ["string", "null"], "minLength": 1, "maxLength": _MAX_ID},
        includeSteps=_STEPS_FIELD,
    ),
    answers=_ANSWERS,
    refusals=(400, 404, 409, 413, 415, 500),
)
async def _run(request: Request) -> Response:
    body = await read_object(request)
    no_other_keys(body, "input", "agent", "thread_id", "includeSteps")
    task, with_steps = task_in(body), include_steps(body)
    agent, thread_id = _agent(body), _thread_id(body)
    runs: Runs = request.app.state.runs
    run = runs.begin(task, agent=agent, thread_id=thread_id, owner=request.scope.get("owner"))
    return _told(await _carried_out(request, run), with_steps=with_steps)


@endpoint
@described(
    "Decide what a run waits for, and go on with it",
    path=("thread_id",),
    body=object_of(
        {"decisions": {"oneOf": [_DECISIONS, {"type": "object", "additionalProperties": _DECISIONS}]}},
        closed=True,
        includeSteps=_STEPS_FIELD,
    ),
    answers=_ANSWERS,
    refusals=(400, 404, 409, 413, 415, 422, 500),
)
async def _resume(request: Request) -> Response:
    body = await read_object(request)
    no_other_keys(body, "decisions", "includeSteps")
    decisions, with_steps = body.get("decisions"), include_steps(body)
    lists = decisions.values() if isinstance(decisions, dict) else [decisions]
    if not all(isinstance(each, list) for each in lists):
        raise Refused(
            400,
            '"decisions" must be a list with one decision for each request, such as [{"type": "approve"}], '
            "or an object: the id of a question -> its list.",
        )
    runs: Runs = request.app.state.runs
    run = runs.answer(
        request.path_params["thread_id"],
        cast("list[Any] | dict[str, list[Any]]", decisions),
        owner=request.scope.get("owner"),
    )
    return _told(await _carried_out(request, run), with_steps=with_steps)


async def _carried_out(request: Request, run: Coroutine[Any, Any, Ended]) -> Ended:
    try:
        return await until_left(request, run)
    except database_errors() as error:
        logger.warning("a thread cannot be read or written: %s", error)
        raise Refused(503, "The thread could not be written to the database: try again later.") from error
    except Exception as error:
        if (text := explained(error)) is None:
            raise
        raise Refused(500, text) from error


def _told(ended: Ended, *, with_steps: bool) -> Response:
    if ended.questions:
        return answer({"thread_id": ended.thread_id, "interrupts": ended.questions}, 202)
    told: dict[str, Any] = {
        "output": ended.output,
        "thread_id": ended.thread_id,
        "status": ended.status,
    }
    return answer({**told, "steps": ended.steps} if with_steps else told)


def _agent(body: Mapping[str, Any]) -> AgentName | None:
    match body.get("agent"):
        case None:
            return None
        case "deep" | "code" | "exec" as name:
            return cast("AgentName", name)
        case _:
            raise Refused(400, '"agent" must be "deep", "code" or "exec".')


def _thread_id(body: Mapping[str, Any]) -> str | None:
    value = body.get("thread_id")
    if value is not None and not (isinstance(value, str) and 0 < len(value) <= _MAX_ID):
        raise Refused(
            400, f'"thread_id" must be a string of 1 to {_MAX_ID} characters, as /run has returned it.'
        )
    return value


ROUTES = [
    *only("POST", "/run", _run),
    *only("POST", "/run/{thread_id}/resume", _resume),
    *nothing_below("/run", "POST /run, and POST /run/{thread_id}/resume"),
]
