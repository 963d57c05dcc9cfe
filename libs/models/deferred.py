"""A chat model that is built when it is first called."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, cast

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import Field

__all__ = ["DeferredChatModel", "ModelUnavailable"]


class ModelUnavailable(RuntimeError):
    """The configured model cannot be used; the message names what is missing and how to mend it.

    A RuntimeError, because LangGraph's server tells clients the messages of those and hides most others.
    """


class DeferredChatModel(BaseChatModel):
    """Stands for the model that `build` makes, so that a graph can be built and read without a key.

    `build` runs at each call, in a thread where the call is asynchronous (providers import packages and
    read certificates); wrap it in `functools.cache` to build once. What it raises reaches the caller,
    `ModelUnavailable` where something has to be configured first.
    """

    label: str
    """What is configured, for people: `openai:gpt-5-mini`."""
    build: Callable[[], BaseChatModel] = Field(exclude=True, repr=False)
    tools: Sequence[Any] = Field(default=(), exclude=True, repr=False)
    tool_options: dict[str, Any] = Field(default_factory=dict, exclude=True, repr=False)

    @property
    def _llm_type(self) -> str:
        return "deferred"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Remember the tools; the real model is told at the call."""
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
        # Whoever closes this one ends the call at once, not when the other is collected.
        async with aclosing(cast("Any", real.astream(input, config, **kwargs))) as chunks:
            async for chunk in chunks:
                yield _as_chunk(chunk)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self.build()._generate(messages, stop, run_manager, **kwargs)


def _as_chunk(message: AIMessage) -> AIMessageChunk:
    """A bound model is typed as giving messages, though streaming gives chunks."""
    return (
        message
        if isinstance(message, AIMessageChunk)
        else AIMessageChunk(**message.model_dump(exclude={"type"}))
    )
