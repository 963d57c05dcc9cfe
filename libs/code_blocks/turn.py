"""What a turn of the loop is made of: where it goes, what a reply is kept as, what a person has decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import END
from langgraph.types import Command

from libs.code_blocks.protocol import BlockCall, Earlier, Meter, Refused
from libs.code_blocks.reader import MAX_REPLY, Block
from libs.code_blocks.shown import shortened
from libs.code_blocks.state import Approved

__all__ = ["approved_as", "end_with", "go", "joined", "kept", "with_words"]


def go(to: str, meter: Meter, *messages: AnyMessage, **update: Any) -> Command[Any]:
    """To a node, with more of the conversation, and what the run has used."""
    return Command(goto=to, update={"messages": list(messages), "run_budget": meter.spent(), **update})


def end_with(status: str, meter: Meter, *messages: AnyMessage, **update: Any) -> Command[Any]:
    """The end of the run."""
    return go(END, meter, *messages, status=status, **update)


def joined(opening: Sequence[AnyMessage], messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The messages of a request; human messages in a row become one, because some providers refuse two."""
    request: list[AnyMessage] = []
    for message in (*opening, *messages):
        last = request[-1] if request else None
        if isinstance(message, HumanMessage) and isinstance(last, HumanMessage):
            request[-1] = HumanMessage(f"{last.text}\n\n{message.text}", id=last.id)
        else:
            request.append(message)
    return request


def approved_as(call: BlockCall, decision: Block | Earlier | Refused) -> Approved:
    """What runs of a block, or why it does not."""
    block = decision if isinstance(decision, Block) else call.block
    return Approved(
        language=block.language,
        code=block.code,
        key=call.key,
        refused=decision.reason if isinstance(decision, Refused) else None,
        granted=decision.scope if isinstance(decision, Earlier) else None,
    )


def kept(text: str) -> str:
    """A reply as the conversation keeps it: providers refuse an empty one, and a flood is not sent again."""
    if len(text) > MAX_REPLY:
        return shortened(text, 2_000)
    return text if text.strip() else "(no reply)"


def with_words(reply: AIMessage, words: str) -> AIMessage:
    """The reply with the loop's last words below it: two assistant messages in a row are refused by some."""
    return reply.model_copy(update={"content": f"{reply.text}\n\n{words}"})
