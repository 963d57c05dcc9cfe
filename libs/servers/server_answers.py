"""What a server is asked: its lists, and the answers to calls, which become JSON for the sandbox."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mcp import Client, MCPError, Tool
from mcp.types import (
    METHOD_NOT_FOUND,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    Prompt,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
)

__all__ = ["MOST_RESULT", "Answer", "CallFailed", "Listing", "answer_of", "as_json", "listing_of"]

MOST_RESULT: Final = 16 * 2**20
"""Bytes of the largest result, as JSON."""
_MOST_LISTED: Final = 10_000
"""Entries of each list of a server."""

Answer = CallToolResult | ReadResourceResult | GetPromptResult | list[dict[str, Any]]
"""The list is that of resources, with their templates."""


class CallFailed(Exception):
    """A call has no result. `str(error)` says why."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server says of itself."""

    tools: Sequence[Tool]
    prompts: Sequence[Prompt] = ()
    resources: bool = False
    """Whether it has resources, or templates of them."""
    about: str = ""


async def listing_of(client: Client) -> Listing:
    """Return the lists of a server, each up to 10,000 entries.

    Raises:
        MCPError, ValidationError: the server refuses, or sends something else.
    """
    offered, info = client.server_capabilities, client.server_info
    return Listing(
        tools=await _all(client.list_tools, lambda page: page.tools) if offered.tools else [],
        prompts=await _all(client.list_prompts, lambda page: page.prompts) if offered.prompts else [],
        resources=bool(offered.resources and await _resources(client)),
        about=client.instructions or (info.title if info else "") or "",
    )


async def answer_of(client: Client, method: str, arguments: dict[str, Any]) -> Answer:
    """Call a tool, or one of `stubs.METHODS`.

    Raises:
        CallFailed: an argument of a method is missing.
        MCPError, ValidationError: the server refuses, or sends something else.
    """
    try:
        match method:
            case "resources/list":
                return await _resources(client)
            case "resources/read":
                return await client.read_resource(str(arguments["uri"]))
            case "prompts/get":
                return await client.get_prompt(str(arguments["name"]), arguments.get("arguments"))
    except KeyError as error:
        raise CallFailed(f"{method} needs the argument {error}") from None
    return await client.call_tool(method, arguments)


def as_json(answer: Answer) -> bytes:
    """Return an answer as JSON: `{"content": [...], "structured", "is_error"}`.

    Each part of the content is `{"text"}`, `{"data": base64, "type"}` or another JSON object. Messages of a
    prompt are structured: `{"role", "content"}`, where the content is a text or a JSON object.

    Raises:
        CallFailed: the answer is too large.
    """
    parts: Sequence[Any] = ()
    structured: Any = None
    match answer:
        case CallToolResult():
            parts, structured = answer.content, answer.structured_content
        case ReadResourceResult():
            parts = answer.contents
        case GetPromptResult():
            said = [(message.role, _part(message.content)) for message in answer.messages]
            structured = [{"role": role, "content": part.get("text", part)} for role, part in said]
        case _:
            structured = answer
    failed = isinstance(answer, CallToolResult) and answer.is_error
    made = {"content": [_part(part) for part in parts], "structured": structured, "is_error": bool(failed)}
    text = json.dumps(made).encode()
    if len(text) > MOST_RESULT:
        raise CallFailed(
            f"the result has {len(text):,} bytes, over {MOST_RESULT:,}: ask the server for a part of it"
        )
    return text


def _part(content: Any) -> dict[str, Any]:
    match content:
        case EmbeddedResource(resource=resource):
            return _part(resource)
        case TextContent(text=text) | TextResourceContents(text=text):
            return {"text": text}
        case ImageContent(data=data, mime_type=kind) | AudioContent(data=data, mime_type=kind):
            return {"data": data, "type": kind}
        case BlobResourceContents(blob=data, mime_type=kind):
            return {"data": data, "type": kind or ""}
    return dict(content.model_dump(mode="json", by_alias=True, exclude_none=True))


async def _resources(client: Client) -> list[dict[str, Any]]:
    found = await _all(client.list_resources, lambda page: page.resources)
    found += await _all(client.list_resource_templates, lambda page: page.resource_templates)
    return [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in found]


async def _all(ask: Callable[..., Awaitable[Any]], read: Callable[[Any], list[Any]]) -> list[Any]:
    """Return the entries of all pages. A list that the server does not know is empty."""
    found: list[Any] = []
    cursor = None
    while len(found) < _MOST_LISTED:
        try:
            page = await ask(cursor=cursor)
        except MCPError as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            break
        found += (entries := read(page))
        cursor = page.next_cursor
        if cursor is None or not entries:
            break
    return found[:_MOST_LISTED]
