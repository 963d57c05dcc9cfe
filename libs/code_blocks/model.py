"""Ask any model for text: a chat model, or a plain generator of text."""

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
"""What can answer. Nothing but messages, or their text, is sent."""

_NEXT_TURN = "\nHuman:"
_NOTHING = "No generation chunks were returned"
"""LangChain's error for an empty reply of a model that streams it as no piece at all."""
_LOOK = 200
"""Characters of a long line after which a reply is looked at again; more where it is long itself."""


async def ask_model(
    model: TextModel,
    messages: Sequence[BaseMessage],
    *,
    end: Callable[[str], int | None],
) -> tuple[AIMessage, int]:
    """Return the reply, its content plain text, and the tokens of request and reply.

    Where the model reports no tokens they are estimated. Raises what the model raises.

    Args:
        model: what answers.
        messages: the request.
        end: where a reply, complete or as far as it has come, stops being the model's own turn; None: nowhere
            yet. What follows is dropped, and a model that streams is not asked for more.
    """
    if isinstance(model, BaseLLM):
        prompt = f"{get_buffer_string(messages)}\nAI:"
        # A generator goes on with the person's turn; not every one heeds `stop`.
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
    stream = cast("Any", model.astream(list(messages)))  # an asynchronous generator, whatever its type says
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
    answer = add_ai_message_chunks(*chunks)
    # Content in a vendor's blocks (reasoning, signatures) becomes text: that is all the next turn needs.
    return AIMessage(
        text[: end(text)],
        id=answer.id,
        usage_metadata=answer.usage_metadata,
        response_metadata=answer.response_metadata,
    )
