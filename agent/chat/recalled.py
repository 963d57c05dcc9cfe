"""What was said in a thread, for a person who comes back to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from libs.code_blocks.reader import read_reply

__all__ = ["last_answer", "tasks"]


def tasks(messages: Sequence[AnyMessage]) -> Iterator[str]:
    """What people have asked for, in order."""
    ran_blocks = False
    for message in messages:
        # Summaries and the like were put in by the program; nobody said them. To the code-block agent, what
        # its blocks have printed is said by the user.
        if isinstance(message, HumanMessage) and "lc_source" not in message.additional_kwargs:
            if not ran_blocks:
                yield message.text
            ran_blocks = False
        elif isinstance(message, AIMessage):
            ran_blocks = not message.tool_calls and bool(read_reply(message.text).blocks)


def last_answer(messages: Sequence[AnyMessage]) -> str:
    """The last words of the model; empty where it has said none."""
    said = (message.text for message in reversed(messages) if isinstance(message, AIMessage))
    return next((text for text in said if text.strip()), "")
