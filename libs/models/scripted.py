"""A chat model that plays a script: for tests, and for a demonstration that needs no model."""

# ruff: noqa: ARG002 - the signatures are those of BaseChatModel

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolCallChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, ConfigDict, Field, ValidationError

__all__ = ["Conversation", "Reply", "ScriptError", "ScriptExhausted", "ScriptedChatModel", "ToolUse"]

_CHUNK_CHARS = 16
"""Characters of text in one streamed chunk."""


class ScriptError(ValueError):
    """The script cannot be read or is not a script; the message names file and line."""


class ScriptExhausted(RuntimeError):
    """The conversation went on for longer than its script."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ToolUse(_Strict):
    """One call of a tool."""

    name: str
    args: dict[str, Any] = Field(default_factory=dict)


class Reply(_Strict):
    """One answer of the model: text, tool calls, or both."""

    text: str = ""
    tool_calls: tuple[ToolUse, ...] = ()


class Conversation(_Strict):
    """The replies of one conversation. Played is the first whose `when` occurs in the first user message."""

    replies: tuple[Reply, ...]
    when: str = ""


class ScriptedChatModel(BaseChatModel):
    """Answers the n-th model call of a conversation with the n-th reply of its script.

    The place in the script is the number of answers in the conversation so far, not a counter: threads,
    subagents (whose conversation begins with the task they were given) and resumed runs do not disturb
    each other. Nothing else of the conversation has any influence.

    Raises:
        ScriptExhausted: there is no reply left, or no conversation fits.
    """

    conversations: tuple[Conversation, ...]
    source: str = "script"
    """Where the script comes from, for error messages."""
    bound_tools: tuple[dict[str, Any], ...] = ()
    """The tools that were bound, as OpenAI schemas."""

    @classmethod
    def from_file(cls, path: Path) -> ScriptedChatModel:
        """Read a script: YAML or JSON, a list of replies, or `conversations:` with a list of conversations.

        Raises:
            ScriptError: the file cannot be read or does not have that form.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ScriptError(f"{path}: cannot read the script: {error}") from error
        return cls(conversations=_parse(text, str(path)), source=str(path))

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Record the tools. A script calls what it says, bound or not."""
        return self.model_copy(update={"bound_tools": tuple(convert_to_openai_tool(tool) for tool in tools)})

    def _next(self, messages: Sequence[BaseMessage]) -> AIMessage:
        first = next((message.text for message in messages if isinstance(message, HumanMessage)), "")
        script = next((c for c in self.conversations if c.when in first), None)
        if script is None:
            raise ScriptExhausted(f"{self.source}: no conversation fits the task {first[:80]!r}")
        place = sum(isinstance(message, AIMessage) for message in messages)
        if place >= len(script.replies):
            raise ScriptExhausted(
                f"{self.source}: the script has {len(script.replies)} replies and was asked for one more. "
                "A script only plays what is in it: start a new thread, or choose a model."
            )
        reply = script.replies[place]
        calls = [
            # Commands are remembered by the id of their call, so two threads must not share one.
            {"name": call.name, "args": call.args, "id": f"call_{uuid4().hex}", "type": "tool_call"}
            for call in reply.tool_calls
        ]
        return AIMessage(content=reply.text, tool_calls=calls)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        reply = self._next(messages)
        text = reply.text
        chunks = [
            AIMessageChunk(content=text[at : at + _CHUNK_CHARS]) for at in range(0, len(text), _CHUNK_CHARS)
        ]
        if reply.tool_calls:
            calls = [
                ToolCallChunk(
                    name=call["name"],
                    args=json.dumps(call["args"]),
                    id=call["id"],
                    index=index,
                    type="tool_call_chunk",
                )
                for index, call in enumerate(reply.tool_calls)
            ]
            chunks.append(AIMessageChunk(content="", tool_call_chunks=calls))
        for message in chunks or [AIMessageChunk(content="")]:
            chunk = ChatGenerationChunk(message=message)
            if run_manager:
                run_manager.on_llm_new_token(message.text, chunk=chunk)
            yield chunk


def _parse(text: str, source: str) -> tuple[Conversation, ...]:
    """Read conversations; every error names `source` and the line of the entry it is about."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ScriptError(f"{source}:{line}: not YAML: {error.problem}") from error
    if isinstance(root, yaml.SequenceNode):
        return (Conversation(replies=_replies(root, source)),)
    entries = _fields(root).get("conversations") if isinstance(root, yaml.MappingNode) else None
    if not isinstance(entries, yaml.SequenceNode):
        raise ScriptError(f"{source}:1: a script is a list of replies, or `conversations:` and a list")
    return tuple(_conversation(entry, source) for entry in entries.value)


def _conversation(node: yaml.Node, source: str) -> Conversation:
    fields = _fields(node) if isinstance(node, yaml.MappingNode) else {}
    replies, when = fields.get("replies"), fields.get("when")
    if not isinstance(replies, yaml.SequenceNode) or set(fields) - {"replies", "when"}:
        raise ScriptError(f"{source}:{_line(node)}: a conversation has `replies` and, if you like, `when`")
    return Conversation(replies=_replies(replies, source), when=str(when.value) if when else "")


def _replies(node: yaml.SequenceNode, source: str) -> tuple[Reply, ...]:
    return tuple(_reply(item, source) for item in node.value)


def _reply(node: yaml.Node, source: str) -> Reply:
    value = yaml.constructor.SafeConstructor().construct_document(node)
    try:
        return Reply.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        problem = f"{where}: {first['msg']}" if where else first["msg"]
        raise ScriptError(f"{source}:{_line(node)}: not a reply: {problem}") from error


def _fields(node: yaml.MappingNode) -> dict[str, yaml.Node]:
    return {key.value: value for key, value in node.value}


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
