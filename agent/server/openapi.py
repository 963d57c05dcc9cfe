"""What LangGraph's server says of our routes in its OpenAPI document, `/openapi.json`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

__all__ = ["INPUT", "STEPS", "Schema", "described", "object_of"]

Schema = Mapping[str, Any]
F = TypeVar("F", bound=Callable[..., Any])


def object_of(required: Mapping[str, Schema], *, closed: bool = False, **optional: Schema) -> Schema:
    """The schema of an object; `closed`: other keys are refused."""
    schema = {"type": "object", "properties": {**required, **optional}, "required": list(required)}
    return {**schema, "additionalProperties": False} if closed else schema


INPUT: Schema = {"type": "string", "pattern": r"\S", "description": "What is to be done."}
"""The schema of a task."""

STEPS: Schema = {
    "type": "array",
    "description": "What led to the answer, in order; the last one is final.",
    "items": {
        "oneOf": [
            object_of(
                {
                    "type": {"const": "tool"},
                    "name": {"type": "string"},
                    "args": {"type": "object"},
                    "result": {"type": "string"},
                }
            ),
            object_of({"type": {"const": "final"}, "content": {"type": "string"}}),
        ]
    },
}
"""The schema of steps."""

_ERROR = object_of({"error": {"type": "string", "description": "What is wrong, and what to do."}})
_REFUSALS = {
    400: "The body is not what it must be.",
    404: "There is no such thread.",
    409: "The thread is at work, another agent's, or waits for nothing.",
    413: "The body is too large.",
    415: "The body is not said to be JSON.",
    422: "The decisions do not fit what was asked; it is still asked.",
    500: "The run failed.",
}


def described(
    summary: str,
    *,
    answers: Mapping[int, tuple[str, Schema]],
    refusals: tuple[int, ...] | Mapping[int, str] = (),
    body: Schema | None = None,
    path: tuple[str, ...] = (),
    query: Mapping[str, Schema] | None = None,
    needed: tuple[str, ...] = (),
    media: Mapping[int, tuple[str, ...]] | None = None,
    sends: str = "application/json",
) -> Callable[[F], F]:
    """Say of a handler what it takes and answers, where Starlette's and LangGraph's generators look for it.

    Args:
        summary: one line.
        answers: status -> what it means, and the schema of its body.
        refusals: statuses with an error, and what they mean where that is not the usual. Those of all routes
            are said elsewhere (`described.py`).
        body: the schema of the request's body.
        path: names of parts of the path.
        query: names of parameters behind the `?` -> their schemas.
        needed: which of these must be there.
        media: status -> the media types of its body, where that is not JSON.
        sends: the media type of the request's body.
    """
    meanings = refusals if isinstance(refusals, Mapping) else {each: _REFUSALS[each] for each in refusals}
    told = dict(answers)
    told |= {status: (meaning, _ERROR) for status, meaning in meanings.items()}
    kinds = media or {}
    text: dict[str, Any] = {
        "summary": summary,
        "tags": ["Code Execution Agent"],
        "responses": {
            str(status): {
                "description": meaning,
                "content": {kind: {"schema": schema} for kind in kinds.get(status, ("application/json",))},
            }
            for status, (meaning, schema) in told.items()
        },
    }
    if body is not None:
        # No bytes are a body, too.
        required = sends == "application/json"
        text["requestBody"] = {"required": required, "content": {sends: {"schema": body}}}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in path
    ]
    for name, schema in (query or {}).items():
        parameters.append({"name": name, "in": "query", "required": name in needed, "schema": schema})
    if parameters:
        text["parameters"] = parameters

    def describe(handler: F) -> F:
        # The generators read YAML behind the last `---` of a docstring, and JSON is YAML.
        handler.__doc__ = f"{handler.__doc__ or ''}\n---\n{json.dumps(text)}"
        return handler

    return describe
