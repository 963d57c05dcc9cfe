"""Describes our routes for the OpenAPI document that LangGraph's server publishes at `/openapi.json`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

__all__ = ["BYTES", "ShownStep", "Task", "described"]

Schema = Mapping[str, Any]
F = TypeVar("F", bound=Callable[..., Any])

BYTES: Schema = {"type": "string", "format": "binary"}
"""The schema of a file."""


def _not_blank(task: str) -> str:
    if not task.strip():
        raise ValueError("it is empty: give a task")
    return task


Task = Annotated[
    str, AfterValidator(_not_blank), Field(description="The task.", json_schema_extra={"pattern": r"\S"})
]


class ToolStep(BaseModel):
    """A call of a tool."""

    type: Literal["tool"]
    name: str
    args: dict[str, Any]
    result: str


class FinalStep(BaseModel):
    """The answer."""

    type: Literal["final"]
    content: str


ShownStep = ToolStep | FinalStep
"""What led to the answer; the last step is final."""


class _Error(BaseModel):
    error: str = Field(description="The error and its solution.")
    thread_id: str | SkipJsonSchema[None] = Field(
        None, description="The thread, if it is not in the request."
    )


_REFUSALS = {
    400: "The body is invalid.",
    404: "There is no such thread.",
    409: "The thread is running, belongs to another agent, or has no pending question.",
    413: "The body is too large.",
    415: "The Content-Type is not JSON.",
    422: "The decisions do not match the pending questions, which stay open.",
    500: "The run failed. `thread_id` names its thread, if the run had begun.",
    503: "The server is busy or ending, or cannot write to its database; the error says what to do.",
}


def described(
    summary: str,
    *,
    answers: Mapping[int, tuple[str, type[BaseModel] | Schema]],
    refusals: tuple[int, ...] | Mapping[int, str] = (),
    body: type[BaseModel] | None = None,
    path: tuple[str, ...] = (),
    query: type[BaseModel] | None = None,
    media: tuple[str, ...] = ("application/json",),
    takes_file: bool = False,
) -> Callable[[F], F]:
    """Describe a handler's request and answers in its docstring, where Starlette and LangGraph read them.

    Args:
        summary: one line.
        answers: status -> its meaning, and the body.
        refusals: error statuses; a mapping gives them meanings other than the usual ones.
            `openapi_document.py` adds the statuses that all routes share.
        body: the request's body.
        path: names of path parameters.
        query: the query parameters.
        media: the media types of the answers' bodies.
        takes_file: whether the request's body is a file.
    """
    meanings = refusals if isinstance(refusals, Mapping) else {each: _REFUSALS[each] for each in refusals}
    text: dict[str, Any] = {"summary": summary, "tags": ["Code Execution Agent"], "responses": {}}
    for status, (meaning, kind) in answers.items():
        text["responses"][str(status)] = {"description": meaning, "content": _content(kind, *media)}
    for status, meaning in meanings.items():
        text["responses"][str(status)] = {"description": meaning, "content": _content(_Error)}
    if body is not None:
        text["requestBody"] = {"required": True, "content": _content(body)}
    elif takes_file:  # which may be empty
        text["requestBody"] = {"content": _content(BYTES, "application/octet-stream")}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in path
    ]
    if query is not None:
        fields = _schema_of(query)
        for name, schema in fields["properties"].items():
            required = name in fields.get("required", ())
            parameters.append({"name": name, "in": "query", "required": required, "schema": schema})
    if parameters:
        text["parameters"] = parameters

    def describe(handler: F) -> F:
        # The generators read YAML after the last `---` of a docstring, and JSON is YAML.
        handler.__doc__ = f"{handler.__doc__ or ''}\n---\n{json.dumps(text)}"
        return handler

    return describe


def _content(kind: type[BaseModel] | Schema, *media: str) -> dict[str, Any]:
    schema = kind if isinstance(kind, Mapping) else _schema_of(kind)
    return {each: {"schema": schema} for each in media or ("application/json",)}


def _schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model, with its parts in place of references to them."""
    schema = model.model_json_schema()
    parts = schema.pop("$defs", {})
    text = json.dumps(schema)
    for name, part in [*parts.items()] * len(parts):  # a part may refer to others
        text = text.replace(json.dumps({"$ref": f"#/$defs/{name}"}), json.dumps(part))
    inlined: dict[str, Any] = json.loads(text)
    return inlined
