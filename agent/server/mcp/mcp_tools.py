"""Defines the MCP tools: their descriptions, arguments and results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from agent.listing import absent_line
from agent.server.routes.run_service import Ended

__all__ = ["TOOLS", "Arguments", "answered", "refused"]

_SHARED = (
    " It has a computer of its own: a hardened container with a workspace, where /data holds what there is "
    "to work on and /results what it made. It reaches no network but what its settings allow. Commands, "
    "edits and deletions may wait for a person's approval: the answer then has the status `interrupted`, "
    "says what waits, and how a person answers. Minutes may pass before it answers."
)
_DESCRIPTIONS = {
    "deep_agent": "Gives a task to an agent that plans, runs shell commands, reads and writes files, uses "
    "skills such as CSV analysis and PDF processing, and has subagents for parts of the work. For tasks on "
    "data and files: analyse, convert, plot, write and run programs." + _SHARED,
    "code_agent": "Gives a task to an agent that answers by writing Python and bash and running it, block by "
    "block, until it has the result; variables stay from block to block. For calculations and analyses, and "
    "for models that cannot call tools." + _SHARED,
    "exec_agent": "Gives a task to an agent that writes one whole program, runs it once in a fresh sandbox, "
    "and answers with what it printed, as JSON, and its files. For tasks that one program does: compute, "
    "convert, plot, fetch from an interface that is allowed; with no more model calls than needed." + _SHARED,
}
"""Name of a graph in langgraph.json -> the tool's description for the client's model."""


def _plain(schema: dict[str, Any]) -> None:
    """Remove from a schema what does not help a model to call the tool."""
    for key in ("title", "description"):
        schema.pop(key, None)
    for each in schema["properties"].values():
        for key in ("title", "default"):
            each.pop(key, None)


class Arguments(BaseModel):
    """The arguments of a tool."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_plain)

    input: str | SkipJsonSchema[None] = Field(
        None,
        description="The task, or what to say next in the thread, with all that the agent needs to know.",
    )
    thread_id: UUID | SkipJsonSchema[None] = Field(
        None,
        description="Thread to continue, from an earlier answer. Without it, a new thread begins. With a "
        "thread_id and no input, returns the thread's current result or pending question.",
    )

    @model_validator(mode="after")
    def _says_something(self) -> Arguments:
        if self.input is not None and not self.input.strip():
            raise ValueError("input is empty: give a task")
        if self.input is None and self.thread_id is None:
            raise ValueError("give input, or the thread_id of an existing thread")
        return self


class _Result(BaseModel):
    """The structured content of a tool's result."""

    model_config = ConfigDict(json_schema_extra=_plain)

    thread_id: str
    status: str = Field(
        description="completed; interrupted: a person must approve what is in `interrupts`; running; error; "
        "no_execution, max_steps, budget_calls, budget_seconds, budget_tokens: it ended before its goal."
    )
    output: str = Field(description="Last message of the agent.")
    absent_paths: list[str] = Field(description="Paths that the task names and that do not exist.")
    interrupts: list[dict[str, Any]] = Field(
        description="Pending approvals: each `{id, value}`, the value with `action_requests` and "
        "`review_configs`."
    )
    answer: dict[str, Any] | None = Field(
        description="If approvals are pending: the request, `{method, path, body}`, that approves all of "
        "them."
    )


TOOLS = [
    Tool(
        name=name,
        title=name.replace("_", " ").capitalize(),
        description=description,
        input_schema=Arguments.model_json_schema(),
        output_schema=_Result.model_json_schema(),
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
        ),
    )
    for name, description in _DESCRIPTIONS.items()
]
"""One tool for each graph in `langgraph.json`."""


def answered(tool: str, ended: Ended, *, refused: str | None = None) -> CallToolResult:
    """Return a tool's result for the state of a thread.

    Args:
        tool: name of the tool and of its graph.
        ended: the state of the thread.
        refused: why the input was refused, if it was.
    """
    answer = _approval_of_all(tool, ended) if ended.questions else None
    text = _waiting(ended, answer) if answer else ended.output or f"The run ended: {ended.status}."
    text = "\n\n".join([text, *map(absent_line, ended.absent_paths)])
    return CallToolResult(
        content=[TextContent(text=f"{refused}\n\n{text}" if refused else text)],
        structured_content=_Result(
            thread_id=ended.thread_id,
            status=ended.status,
            output=ended.output,
            absent_paths=list(ended.absent_paths),
            interrupts=ended.questions,
            answer=answer,
        ).model_dump(mode="json"),
        is_error=refused is not None or ended.status == "error",
    )


def refused(reason: str) -> CallToolResult:
    """Return a tool's result for a call that cannot be carried out."""
    return CallToolResult(content=[TextContent(text=reason)], is_error=True)


def _waiting(ended: Ended, answer: Mapping[str, Any]) -> str:
    """Return the text for the client's model and its user. The model must not be tempted to decide."""
    requests = [request for each in ended.questions for request in each["value"].get("action_requests", ())]
    shown = "\n\n".join(
        f"{number}. {request.get('description') or request['name']}"
        for number, request in enumerate(requests, 1)
    )
    effects = any("effect" in request for request in requests)
    ran = "each call below that has already run says so" if effects else "none of it has run"
    return (
        f"This waits for a person's approval; {ran}. Thread: {ended.thread_id}\n\n{shown}\n\n"
        "A person decides, not a model: tell them what waits. They answer on this server's page or in "
        f"Studio, where the thread is listed, or with {answer['method']} {answer['path']} and the body that "
        "is under `answer` in the structured content. It has one decision for each request, in order: "
        '{"type": "approve"} or {"type": "reject", "message": "why"}. Then call this tool with the thread_id '
        "alone for the outcome."
    )


def _approval_of_all(tool: str, ended: Ended) -> dict[str, Any]:
    decisions = {
        each["id"]: {
            "decisions": [
                {"type": "approve"} | ({"digest": request["digest"]} if "digest" in request else {})
                for request in each["value"].get("action_requests", ())
            ]
        }
        for each in ended.questions
    }
    return {
        "method": "POST",
        "path": f"/threads/{ended.thread_id}/runs/wait",
        "body": {"assistant_id": tool, "command": {"resume": decisions}},
    }
