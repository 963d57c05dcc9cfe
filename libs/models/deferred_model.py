"""A chat model that is built at its first call, so that a graph needs no key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, cast

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import Field

__all__ = ["DeferredChatModel", "ModelUnavailable"]


class ModelUnavailable(RuntimeError):
    """The configured model cannot be used; the message says what is missing and how to set it.

    A RuntimeError, because LangGraph's server shows clients the messages of this class and hides most others.
    """


class DeferredChatModel(BaseChatModel):
    """Calls the model that `build` returns, so that a graph can be built without a key.

    `build` runs at each call; wrap it in `functools.cache` to build once. An asynchronous call runs `build`
    in a thread, because providers import packages and read certificates. Errors of `build` reach the caller:
    `ModelUnavailable` for missing configuration.
    """

    label: str
    """The configured model as people write it: `openai:gpt-5-mini`."""
    build: Callable[[], BaseChatModel] = Field(exclude=True, repr=False)
    tools: Sequence[Any] = Field(default=(), exclude=True, repr=False)
    tool_options: dict[str, Any] = Field(default_factory=dict, exclude=True, repr=False)

    @property
    def _llm_type(self) -> str:
        return "deferred"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Keep the tools and bind them to the real model at the call."""
        return self.model_copy(
            update={"tools": tuple(tools), "tool_options": {"tool_choice": tool_choice, **kwargs}}
        )

    def _real(self) -> Runnable[LanguageModelInput, AIMessage]:
        model = self.build()
        return model.bind_tools(self.tools, **self.tool_options) if self.tools else model

    def invoke(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AIMessage:
        return self._real().invoke(input, config, **kwargs)

    async def ainvoke(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AIMessage:
        real = await asyncio.to_thread(self._real)
        return await real.ainvoke(input, config, **kwargs)

    def stream(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[AIMessageChunk]:
        for chunk in self._real().stream(input, config, **kwargs):
            yield _as_chunk(chunk)

    async def astream(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[AIMessageChunk]:
        real = await asyncio.to_thread(self._real)
        # Closing this generator ends the call at once, not at garbage collection.
        async with aclosing(cast("Any", real.astream(input, config, **kwargs))) as chunks:
            async for chunk in chunks:
                yield _as_chunk(chunk)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 the real model has its own
        **kwargs: Any,
    ) -> ChatResult:
        message = self.invoke(messages, stop=stop, **kwargs)
        return ChatResult(generations=[ChatGeneration(message=message)])


def _as_chunk(message: AIMessage) -> AIMessageChunk:
    """Return the message as a chunk: the type of a bound model promises messages only."""
    if isinstance(message, AIMessageChunk):
        return message
    return AIMessageChunk(**message.model_dump(exclude={"type"}))
