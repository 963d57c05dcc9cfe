"""A chat model that plays a script: for tests, and for a demonstration without a model."""

# ruff: noqa: ARG002 - the signatures are those of BaseChatModel

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

__all__ = ["Conversation", "Reply", "ScriptError", "ScriptExhausted", "ScriptedChatModel", "ToolUse"]

_CHUNK_CHARS = 16
"""Characters of text in one streamed chunk."""


class ScriptError(ValueError):
    """The script is unreadable or malformed; the message names the file and the place in it."""


class ScriptExhausted(RuntimeError):
    """The script has no reply for this call."""


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
    """Replies of one conversation. The first whose `when` is in the first user message is used."""

    replies: tuple[Reply, ...]
    when: str = ""


class _Script(_Strict):
    conversations: tuple[Conversation, ...]


class ScriptedChatModel(BaseChatModel):
    """Answers the n-th model call of a conversation with the n-th reply of its script.

    The position in the script is the number of answers in the conversation, not a counter. So threads,
    subagents (whose conversation begins with their task) and resumed runs do not disturb each other.

    Raises:
        ScriptExhausted: no reply is left, or no conversation fits.
    """

    conversations: tuple[Conversation, ...]
    source: str = "script"
    """Name of the script in error messages."""
    bound_tools: tuple[dict[str, Any], ...] = ()
    """The tools that were bound, as OpenAI schemas."""

    @classmethod
    def from_file(cls, path: Path) -> ScriptedChatModel:
        """Read a script: YAML or JSON, a list of replies, or `conversations:` with a list of conversations.

        Raises:
            ScriptError: the file is unreadable or malformed.
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
        """Record the tools. A script may call tools that are not bound."""
        return self.model_copy(update={"bound_tools": tuple(convert_to_openai_tool(tool) for tool in tools)})

    def played_out(self, messages: Sequence[BaseMessage]) -> bool:
        """Return whether the script has no reply for a further message in this conversation."""
        script = self._script_of(messages)
        return script is None or _place(messages) >= len(script.replies)

    def _script_of(self, messages: Sequence[BaseMessage]) -> Conversation | None:
        first = next((message.text for message in messages if isinstance(message, HumanMessage)), "")
        return next((c for c in self.conversations if c.when in first), None)

    def _next(self, messages: Sequence[BaseMessage]) -> AIMessage:
        script = self._script_of(messages)
        if script is None:
            first = next((message.text for message in messages if isinstance(message, HumanMessage)), "")
            raise ScriptExhausted(f"{self.source}: no conversation fits the task {first[:80]!r}")
        place = _place(messages)
        if place >= len(script.replies):
            raise ScriptExhausted(
                f"{self.source}: the script has {len(script.replies)} "
                f"{'reply' if len(script.replies) == 1 else 'replies'} for this conversation, and the model "
                "was called once more. Add a reply to the script, start a new conversation, or choose "
                "another model."
            )
        reply = script.replies[place]
        calls = [
            # The command log uses the id of a call as its key, so two threads must not share an id.
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
        starts = range(0, len(text), _CHUNK_CHARS)
        chunks = [AIMessageChunk(content=text[at : at + _CHUNK_CHARS]) for at in starts]
        if reply.tool_calls:
            chunks.append(AIMessageChunk(content="", tool_calls=reply.tool_calls))
        for message in chunks or [AIMessageChunk(content="")]:
            chunk = ChatGenerationChunk(message=message)
            if run_manager:
                run_manager.on_llm_new_token(message.text, chunk=chunk)
            yield chunk


def _place(messages: Sequence[BaseMessage]) -> int:
    """Return the number of answers in a conversation, which is the position in its script."""
    return sum(isinstance(message, AIMessage) for message in messages)


def _parse(text: str, source: str) -> tuple[Conversation, ...]:
    try:
        value = yaml.safe_load(text)
        whole = {"conversations": [{"replies": value}]} if isinstance(value, list) else value
        return _Script.model_validate(whole).conversations
    except yaml.YAMLError as error:
        raise ScriptError(f"{source}: not a script: {error}") from error
    except ValidationError as error:
        problems = "; ".join(_explain(details) for details in error.errors())
        raise ScriptError(f"{source}: not a script: {problems}") from error


_FIELDS: dict[str, type[BaseModel]] = {"conversations": Conversation, "replies": Reply, "tool_calls": ToolUse}
"""Name of a list -> the model of its items."""


def _explain(error: ErrorDetails) -> str:
    """Return a sentence about one error: its place in the script, and which fields are allowed."""
    *within, last = error["loc"] or ("",)
    where = ".".join(map(str, error["loc"]))
    if error["type"] != "extra_forbidden":
        return f"{where}: {error['msg']}" if where else error["msg"]
    known: list[type[BaseModel]] = [_FIELDS[str(part)] for part in within if part in _FIELDS]
    kind = known[-1] if known else _Script
    return f"{where}: unknown field {last}; allowed: {', '.join(kind.model_fields)}"
