"""What a turn of the loop is made of: where it goes, what a reply is kept as, what a person has decided."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import END
from langgraph.types import Command

from libs.code_blocks import feedback
from libs.code_blocks.need import Need, need_for_code
from libs.code_blocks.protocol import BlockCall, Earlier, Meter, Refused
from libs.code_blocks.reader import MAX_REPLY, Block
from libs.code_blocks.shown import shortened
from libs.code_blocks.state import Approved, CodeState

__all__ = ["approved_as", "end_with", "go", "kept", "need_in", "with_words"]


def go(to: str, meter: Meter, *messages: AnyMessage, **update: Any) -> Command[Any]:
    """To a node, with more of the conversation, and what the run has used."""
    return Command(goto=to, update={"messages": list(messages), "run_budget": meter.spent(), **update})


def end_with(status: str, meter: Meter, *messages: AnyMessage, **update: Any) -> Command[Any]:
    """The end of the run."""
    return go(END, meter, *messages, status=status, **update)


def need_in(state: CodeState, text: str) -> Need:
    """How much the task needs code, where nothing has run and the reply has none."""
    messages, before = state["messages"], state.get("earlier") or 0
    earlier = "\n".join(message.text for message in messages[:before]) if before else None
    need = need_for_code(state["task"], text, about_data=state.get("about_data", False), earlier=earlier)
    asked = any(message.text == feedback.UNSURE for message in messages[before:])
    return Need.NONE if need is Need.PERHAPS and asked else need


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
