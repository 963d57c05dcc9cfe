"""A chat model that runs on this machine, with any engine of the protocol `Engine`."""

# ruff: noqa: ARG002 - the signatures are those of BaseChatModel

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.chat_models import agenerate_from_stream, generate_from_stream
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field

from libs.models.deferred_model import ModelUnavailable
from libs.models.stop_text import StopText

__all__ = ["ContextTooLong", "Engine", "LocalChatModel", "Piece"]


class ContextTooLong(ValueError):
    """Conversation and answer exceed the context of the model; the message has the numbers."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Result of one step of an engine; empty while the engine reads the prompt or waits for its turn."""

    text: str = ""
    tokens: int = 0
    """Tokens of this step."""
    end: Literal["stop", "length"] | None = None
    """Set in the last piece: the model ended, or reached `max_new_tokens`."""


@runtime_checkable
class Engine(Protocol):
    """Runs the weights. Safe to use from several threads; one generation runs at a time."""

    @property
    def context_tokens(self) -> int:
        """Limit of tokens for prompt and answer together."""
        ...

    def prompt(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """Return the tokens of a conversation of `{role, content}`, up to the begin of the answer."""
        ...

    def generate(
        self, prompt: list[int], *, max_new_tokens: int, temperature: float
    ) -> Generator[Piece, None, None]:
        """Yield the answer step by step. Closing the iterator ends the generation."""
        ...


class LocalChatModel(BaseChatModel):
    """A local chat model: text only, with streaming and stop sequences.

    An asynchronous call runs in its own thread, so the event loop is never blocked. A cancelled call ends the
    generation after the current step; while a long prompt is read, that takes some seconds. Calls wait for
    each other.

    Raises:
        ContextTooLong: prompt and `max_new_tokens` exceed the context of the engine. No message is dropped;
            the caller decides.
        ModelUnavailable: tools were bound, or the engine cannot be loaded.
        ValueError: a message is not a system, human or ai message, or contains more than text.
    """

    engine: Engine = Field(exclude=True, repr=False)
    model_name: str = "local"
    max_new_tokens: int = Field(default=1024, ge=1)
    """Limit of tokens for an answer; an answer that reaches the limit has the finish reason `length`."""
    temperature: float = Field(default=0, ge=0)
    """0 always takes the likeliest token: the same prompt gives the same answer."""

    @property
    def _llm_type(self) -> str:
        return "local"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Refuse tools: a small model does not call them reliably. An empty list changes nothing."""
        if tools:
            raise ModelUnavailable(
                "The local model cannot call tools. Use it with the agent that works in code blocks, or "
                "choose another model: MODEL=provider:model, OPENAI_API_KEY or OPENAI_BASE_URL."
            )
        return self

    def _resolve_model_profile(self) -> ModelProfile:
        return {
            "max_input_tokens": max(0, self.engine.context_tokens - self.max_new_tokens),
            "max_output_tokens": self.max_new_tokens,
            "tool_calling": False,
            "structured_output": False,
            "image_inputs": False,
        }

    def _pieces(
        self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> Generator[ChatGenerationChunk, None, None]:
        max_new_tokens = options.get("max_new_tokens", self.max_new_tokens)
        prompt = self.engine.prompt([_as_dict(message) for message in messages])
        if len(prompt) + max_new_tokens > self.engine.context_tokens:
            raise ContextTooLong(
                f"The conversation has {len(prompt):,} tokens and its answer may have {max_new_tokens:,}; "
                f"the local model can take {self.engine.context_tokens:,} together. "
                "Begin a new conversation, with less at once."
            )
        text = StopText(stop or ())
        made, end = 0, ""
        steps = self.engine.generate(
            prompt,
            max_new_tokens=max_new_tokens,
            temperature=options.get("temperature", self.temperature),
        )
        with closing(steps):
            for piece in steps:
                made += piece.tokens
                end = piece.end or end
                # Empty pieces are passed on too: a cancelled call is noticed while the prompt is read.
                yield ChatGenerationChunk(message=AIMessageChunk(content=text.feed(piece.text)))
                if text.found:
                    end = "stop"
                    break
        last = AIMessageChunk(
            content=text.end(),
            usage_metadata={
                "input_tokens": len(prompt),
                "output_tokens": made,
                "total_tokens": len(prompt) + made,
            },
            response_metadata={"finish_reason": end, "model_name": self.model_name},
            chunk_position="last",
        )
        yield ChatGenerationChunk(message=last, generation_info={"finish_reason": end})

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        with closing(self._pieces(messages, stop, kwargs)) as pieces:
            for chunk in pieces:
                if not _is_empty(chunk):
                    if run_manager:
                        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[ChatGenerationChunk | None] = asyncio.Queue()
        gone = threading.Event()

        def deliver(chunk: ChatGenerationChunk | None) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(arrived.put_nowait, chunk)

        def work() -> None:
            try:
                with closing(self._pieces(messages, stop, kwargs)) as pieces:
                    for chunk in pieces:
                        if gone.is_set():
                            return
                        if not _is_empty(chunk):
                            deliver(chunk)
            finally:
                deliver(None)

        # Its own thread: a generation takes minutes, and the threads of the loop are few.
        worker = ThreadPoolExecutor(1, "local-model")
        done = loop.run_in_executor(worker, work)
        worker.shutdown(wait=False)
        try:
            while (chunk := await arrived.get()) is not None:
                if run_manager:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk
            await done
        finally:
            gone.set()

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return generate_from_stream(self._stream(messages, stop, run_manager, **kwargs))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return await agenerate_from_stream(self._astream(messages, stop, run_manager, **kwargs))


_ROLES: dict[type[BaseMessage], str] = {SystemMessage: "system", HumanMessage: "user", AIMessage: "assistant"}


def _as_dict(message: BaseMessage) -> dict[str, str]:
    role = next((role for kind, role in _ROLES.items() if isinstance(message, kind)), None)
    if role is None:
        raise ValueError(f"The local model reads system, human and ai messages, not {message.type} messages.")
    if isinstance(message.content, list):
        kinds = {"text" if isinstance(block, str) else str(block.get("type")) for block in message.content}
        if other := sorted(kinds - {"text"}):
            raise ValueError(f"The local model reads text only, and a message holds {', '.join(other)}.")
    return {"role": role, "content": message.text}


def _is_empty(chunk: ChatGenerationChunk) -> bool:
    return not chunk.text and not chunk.generation_info
