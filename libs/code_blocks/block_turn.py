"""Build the graph updates and messages of the loop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END
from langgraph.types import Command

from libs.code_blocks.block_feedback import Outcome
from libs.code_blocks.block_protocol import BlockCall, Refused
from libs.code_blocks.block_reader import MAX_REPLY
from libs.code_blocks.block_state import CodeState
from libs.middleware.budget import Meter
from libs.middleware.program_messages import told
from libs.sandbox.host import blocking, shortened

__all__ = [
    "as_node",
    "blocks_message",
    "end_with",
    "go",
    "joined",
    "kept",
    "languages_run",
    "left_open",
    "with_words",
]


def as_node(node: Callable[[CodeState], Coroutine[Any, Any, Any]]) -> RunnableLambda[CodeState, Any]:
    """Return a graph node for synchronous and asynchronous callers."""
    return RunnableLambda(blocking(node), afunc=node)


def go(to: str, meter: Meter, *messages: AnyMessage, **update: Any) -> Command[Any]:
    """Go to a node, add messages, and save what the run has used."""
    return Command(goto=to, update={"messages": list(messages), "run_budget": meter.spent(), **update})


def end_with(status: str, meter: Meter, *messages: AnyMessage, **update: Any) -> Command[Any]:
    """End the run with `status`."""
    return go(END, meter, *messages, status=status, **update)


def joined(opening: Sequence[AnyMessage], messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the messages of a request. Adjacent human messages become one: some providers refuse two."""
    request: list[AnyMessage] = []
    for message in (*opening, *messages):
        last = request[-1] if request else None
        if isinstance(message, HumanMessage) and isinstance(last, HumanMessage):
            request[-1] = HumanMessage(f"{last.text}\n\n{message.text}", id=last.id)
        else:
            request.append(message)
    return request


def kept(text: str) -> str:
    """Return a reply as the conversation keeps it: never empty, which providers refuse, and never huge."""
    if len(text) > MAX_REPLY:
        return shortened(text, 2_000)
    return text if text.strip() else "(no reply)"


def with_words(reply: AIMessage, words: str) -> AIMessage:
    """Append `words` to the reply. Some providers refuse two assistant messages in a row."""
    return reply.model_copy(update={"content": f"{reply.text}\n\n{words}"})


def blocks_message(
    said: str,
    blocks: Sequence[BlockCall],
    outcomes: Sequence[Outcome],
    shown: Sequence[str],
    unbegun: Collection[str] = (),
) -> HumanMessage:
    """Return the message with the output of a reply's blocks, marked as written by the loop.

    The mark `"blocks"` holds `{key, language, exit_code, seconds, output, refused}` for each block.
    `exit_code` and `seconds` are None if the block did not run; `output` is its text in `shown`; `refused` is
    the reason of the person or the rule that refused it. `decision`, if somebody or something has decided, is
    the `decision_record`. `unbegun` is true for a block whose key is in the argument: the sandbox failed
    before the block began. Threads of earlier versions have no `output`.
    """
    marks = []
    for block, outcome, output in zip(blocks, outcomes, shown, strict=True):
        done = None if isinstance(outcome, Refused) else outcome
        marks.append(
            {
                "key": block["key"],
                "language": block["language"],
                "exit_code": done["exit_code"] if done else None,
                "seconds": done["seconds"] if done else None,
                "output": output,
                "refused": outcome.reason if isinstance(outcome, Refused) else None,
                **({"decision": block["decision"]} if "decision" in block else {}),
                **({"unbegun": True} if block["key"] in unbegun else {}),
            }
        )
    return told(said, blocks=marks)


def languages_run(messages: Iterable[AnyMessage]) -> set[str]:
    """Return the languages of the blocks that have run in a conversation.

    See `blocks_message`, and the mark `begun` of the message about a reply whose run was cut off.
    """
    told_of = [message.response_metadata for message in messages]
    marks = (mark for each in told_of for mark in each.get("blocks", ()))
    ended = {each["language"] for each in marks if each["exit_code"] is not None and not each.get("unbegun")}
    return ended.union(*(each.get("begun", ()) for each in told_of))


def left_open(state: CodeState) -> list[BlockCall]:
    """Return the blocks of the latest reply, if no message says how they have ended.

    Its run was cut off, or a person has left its question open and has sent another message.
    """
    for message in reversed(state["messages"]):
        if isinstance(message, AIMessage):
            return [each for each in state.get("blocks", ()) if each["key"].startswith(f"{message.id}/")]
        if {"blocks", "begun"} & message.response_metadata.keys():
            break
    return []
