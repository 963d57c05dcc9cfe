"""Ask a chat model or a plain text generator for text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any, cast

from langchain_core.language_models import BaseChatModel, BaseLLM
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, get_buffer_string
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.messages.utils import count_tokens_approximately

__all__ = ["TextModel", "ask_model"]

TextModel = BaseChatModel | BaseLLM
"""A model that can answer. Only messages, or their text, are sent."""

_NEXT_TURN = "\nHuman:"
_NOTHING = "No generation chunks were returned"
"""LangChain's error when a model streams an empty reply as no chunk at all."""
_LOOK = 200
"""Characters of a long line after which the reply is checked again; more for a long reply."""


async def ask_model(
    model: TextModel,
    messages: Sequence[BaseMessage],
    *,
    end: Callable[[str], int | None],
) -> tuple[AIMessage, int]:
    """Return the reply as plain text, and the tokens of request and reply, estimated if none are reported.

    `end` returns the index at which a reply, complete or partial, is cut, or None. Then a stream is closed.
    Raises the errors of the model.
    """
    if isinstance(model, BaseLLM):
        prompt = f"{get_buffer_string(messages)}\nAI:"
        # A generator continues with the human turn; some ignore `stop`.
        text = (await model.ainvoke(prompt, stop=[_NEXT_TURN])).split(_NEXT_TURN)[0].strip()
        reply = AIMessage(text[: end(text)])
    else:
        reply = await _streamed(model, messages, end)
    reported = reply.usage_metadata["total_tokens"] if reply.usage_metadata else 0
    return reply, reported or count_tokens_approximately([*messages, reply])


async def _streamed(
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    end: Callable[[str], int | None],
) -> AIMessage:
    chunks: list[AIMessageChunk] = []
    text, looked = "", 0
    stream = cast("Any", model.astream(list(messages)))  # an async generator, although typed as an iterator
    try:
        async with aclosing(stream):
            async for chunk in stream:
                chunks.append(chunk)
                text += chunk.text
                if "\n" in chunk.text or len(text) > looked + max(_LOOK, looked // 8):
                    looked = len(text)
                    if end(text) is not None:
                        break
    except ValueError as error:
        if str(error) != _NOTHING:
            raise
        return AIMessage("")
    # A model that cannot stream gives its whole reply, which is no chunk.
    answer = chunks[0] if len(chunks) == 1 else add_ai_message_chunks(*chunks)
    # Provider-specific content (reasoning, signatures) is dropped: the next turn needs the text only.
    return AIMessage(
        text[: end(text)],
        id=answer.id,
        usage_metadata=answer.usage_metadata,
        response_metadata=answer.response_metadata,
    )
