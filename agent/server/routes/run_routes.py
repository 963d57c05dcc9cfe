"""Serves `POST /run` and `POST /run/{thread_id}/resume`: run an agent and answer with its result."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator
from starlette.requests import Request
from starlette.responses import Response

from agent.server.json_exchange import Refused, answer, endpoint, read_body, until_left
from agent.server.method_routes import nothing_below, routes
from agent.server.openapi import ShownStep, Task, described
from agent.server.routes.run_service import Ended, Runs
from libs.middleware.approvals import has_only_ids
from libs.models import ModelUnavailable
from libs.persistence import database_errors

__all__ = ["ROUTES"]

logger = logging.getLogger(__name__)


class _Task(BaseModel, extra="forbid", strict=True):
    input: Task
    agent: Literal["deep", "code", "exec"] | None = None
    thread_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    includeSteps: bool = False


class _Decisions(BaseModel, extra="forbid", strict=True):
    decisions: Any = Field(
        description="A decision for each waiting call, in order, such as `{type: approve}`; or the id of "
        "each question -> its list of decisions, or its only decision. The object with ids may also be the "
        "whole body.",
        json_schema_extra={"anyOf": [{"type": "array"}, {"type": "object"}]},
    )
    includeSteps: bool = False

    @model_validator(mode="before")
    @classmethod
    def _take_ids_alone(cls, sent: Any) -> Any:
        # `{"<id>": answer}`, the form of `resume` on LangGraph's routes.
        if not isinstance(sent, dict) or "decisions" in sent:
            return sent
        answers = {key: value for key, value in sent.items() if key != "includeSteps"}
        if not answers or not has_only_ids(answers):
            return sent
        return {key: value for key, value in sent.items() if key not in answers} | {"decisions": answers}


class _Answered(BaseModel):
    output: str
    thread_id: str
    status: str
    absent_paths: list[str] = Field([], description="Paths that the task names and that do not exist.")
    steps: list[ShownStep] = []


class _Question(BaseModel):
    id: str
    value: dict[str, Any] = Field(
        description="Has action_requests and review_configs. A question about one call also has the "
        "fields of LangChain's `tool_approval`."
    )


class _Asks(BaseModel):
    thread_id: str
    interrupts: list[_Question]


_ANSWERS: Mapping[int, tuple[str, type[BaseModel]]] = {
    200: ("The answer.", _Answered),
    202: ("A call needs a person's approval.", _Asks),
}


@endpoint
@described(
    "Carry out a task with an agent",
    body=_Task,
    answers=_ANSWERS,
    refusals=(400, 404, 409, 413, 415, 500, 503),
)
async def _run(request: Request) -> Response:
    asked = await read_body(request, _Task)
    runs: Runs = request.app.state.runs
    owner = request.scope.get("owner")
    run = runs.begin(asked.input, agent=asked.agent, thread_id=asked.thread_id, owner=owner)
    return _response(await _carried_out(request, run), with_steps=asked.includeSteps)


@endpoint
@described(
    "Answer pending approvals and resume the run",
    path=("thread_id",),
    body=_Decisions,
    answers=_ANSWERS,
    refusals=(400, 404, 409, 413, 415, 422, 500, 503),
)
async def _resume(request: Request) -> Response:
    try:
        given = await read_body(request, _Decisions)
    except Refused as refused:
        if refused.status != 400:
            raise
        raise Refused(
            400, f'{str(refused).rstrip(".")}. Send {{"decisions": [{{"type": "approve"}}]}}.'
        ) from None
    runs: Runs = request.app.state.runs
    thread_id, owner = request.path_params["thread_id"], request.scope.get("owner")
    run = runs.answer(thread_id, given.decisions, owner=owner)
    return _response(await _carried_out(request, run), with_steps=given.includeSteps)


async def _carried_out(request: Request, run: Coroutine[Any, Any, Ended]) -> Ended:
    try:
        return await until_left(request, run)
    except database_errors() as error:
        logger.warning("a thread cannot be read or written: %s", error)
        raise Refused(503, "The thread could not be written to the database: try again later.") from error
    except ModelUnavailable as error:
        raise Refused(500, str(error)) from error


def _response(ended: Ended, *, with_steps: bool) -> Response:
    if ended.failed:
        raise Refused(500, ended.output, thread_id=ended.thread_id)
    if ended.questions:
        return answer({"thread_id": ended.thread_id, "interrupts": ended.questions}, 202)
    result: dict[str, Any] = {"output": ended.output, "thread_id": ended.thread_id, "status": ended.status}
    if ended.absent_paths:
        result["absent_paths"] = list(ended.absent_paths)
    return answer({**result, "steps": ended.steps} if with_steps else result)


ROUTES = [
    *routes("/run", POST=_run),
    *routes("/run/{thread_id}/resume", POST=_resume),
    *nothing_below("/run", "POST /run, and POST /run/{thread_id}/resume"),
]
