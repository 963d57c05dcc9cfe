"""Ask any model for text: a chat model, or a plain generator of text."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.language_models import BaseChatModel, BaseLLM
from langchain_core.messages import AIMessage, BaseMessage, get_buffer_string
from langchain_core.messages.utils import count_tokens_approximately

__all__ = ["TextModel", "ask_model"]

TextModel = BaseChatModel | BaseLLM
"""What can answer. Nothing but messages, or their text, is sent."""

_NEXT_TURN = "\nHuman:"


async def ask_model(model: TextModel, messages: Sequence[BaseMessage]) -> tuple[AIMessage, int]:
    """Return the reply, its content plain text, and the tokens of request and reply.

    Where the model reports no tokens they are estimated. Raises what the model raises.
    """
    if isinstance(model, BaseLLM):
        prompt = f"{get_buffer_string(messages)}\nAI:"
        # A generator goes on with the person's turn; not every one heeds `stop`.
        text = (await model.ainvoke(prompt, stop=[_NEXT_TURN])).split(_NEXT_TURN)[0].strip()
        reply = AIMessage(text)
    else:
        answer = await model.ainvoke(list(messages))
        # Content in a vendor's blocks (reasoning, signatures) becomes text: that is all the next turn needs.
        reply = AIMessage(
            answer.text,
            id=answer.id,
            usage_metadata=answer.usage_metadata,
            response_metadata=answer.response_metadata,
        )
    reported = reply.usage_metadata["total_tokens"] if reply.usage_metadata else 0
    return reply, reported or count_tokens_approximately([*messages, reply])
