"""Decide which functions the package of a server has, and which of them are free."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from mcp.types import Prompt, Tool

__all__ = ["METHODS", "Function", "functions_of", "is_free"]

METHODS = ("prompts/get", "resources/list", "resources/read")
"""What `call` does besides calling tools. The names, arguments and results are those of MCP's methods."""

_LONGEST_NAME = 128
"""Characters of a name, by MCP's rule for tools. A tool or prompt with a longer name has no function."""
_ANYTHING = {"additionalProperties": True}
_LISTS = "List the resources: dicts with the server's keys, such as name and uri, or uriTemplate."
_READS = "Read a resource. Return its text, or the path of its file; a list if there are several parts."
_GETS = "Get the messages of a prompt: dicts with role and content."
_TWICE = "The server lists this name more than once, so its arguments are not known."

Named = TypeVar("Named", Tool, Prompt)


@dataclass(frozen=True)
class Function:
    """What a function calls, and with what."""

    tool: str
    """The name that is called, allowed and declared."""
    title: str
    """What the Python name is made of."""
    inputs: Any
    words: str = ""
    """What the server says about it."""
    does: str = "Call the server."
    """What the function does, if the server says nothing."""
    output: Any = None
    """Schema of the result. None: not given."""
    free: bool = False
    prompt: str | None = None
    """Name of the prompt that the function gets."""


def is_free(tool: Tool, free: Collection[str] = ()) -> bool:
    """Return whether a tool may be called without a declaration.

    Tools are free that are annotated read-only and closed-world, or that are listed in `free`. A hint that is
    not given counts as MCP's default: not read-only, and open-world.
    """
    hints = tool.annotations
    closed = hints is not None and hints.read_only_hint is True and hints.open_world_hint is False
    return closed or tool.name in free


def functions_of(
    tools: Sequence[Tool],
    *,
    prompts: Sequence[Prompt] = (),
    resources: bool = False,
    free: Collection[str] = (),
) -> list[Function]:
    """Return the functions of a server, sorted by name, without names that are longer than MCP's limit.

    The list of resources is free: it takes no argument, so a call carries nothing to the server. Reading a
    resource and getting a prompt can reach all that the server reaches, and MCP has no annotation for them.
    """
    made = [_of_tools(each, free) for name, each in _by_name(tools).items() if name not in METHODS]
    made += [_of_prompts(each) for each in _by_name(prompts).values()]
    if resources:
        uri = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]}
        made += [
            Function("resources/list", "resources", {}, does=_LISTS, free=True),
            Function("resources/read", "read_resource", uri, does=_READS),
        ]
    kept = [each for each in made if len(each.title) <= _LONGEST_NAME]
    decided = [replace(each, free=each.free or each.tool in free) for each in kept]
    return sorted(decided, key=lambda each: (each.title, each.tool))


def _by_name(listed: Sequence[Named]) -> dict[str, list[Named]]:
    """Return name -> what has that name."""
    named: dict[str, list[Named]] = {}
    for each in listed:
        named.setdefault(each.name, []).append(each)
    return named


def _of_tools(tools: list[Tool], free: Collection[str]) -> Function:
    tool = tools[0]
    if len(tools) > 1:
        all_free = all(is_free(each, free) for each in tools)
        return Function(tool.name, tool.name, _ANYTHING, does=_TWICE, free=all_free)
    return Function(
        tool.name,
        tool.name,
        tool.input_schema,
        output=tool.output_schema,
        words=tool.description or tool.title or "",
        free=is_free(tool, free),
    )


def _of_prompts(prompts: list[Prompt]) -> Function:
    prompt = prompts[0]
    function = Function("prompts/get", f"prompt_{prompt.name}", _ANYTHING, does=_TWICE, prompt=prompt.name)
    if len(prompts) > 1:
        return function
    arguments = prompt.arguments or []
    inputs = {
        "type": "object",
        "properties": {each.name: {"type": "string", "description": each.description} for each in arguments},
        "required": [each.name for each in arguments if each.required],
    }
    words = prompt.description or prompt.title or ""
    return replace(function, inputs=inputs, words=words, does=_GETS)
