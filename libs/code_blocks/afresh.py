"""Let a small model begin afresh: what it has said itself it says again, whatever it is told about it.

Once the same code has failed twice, the turns that failed are no longer sent. In their place stands how they
ended, without the code. The conversation itself keeps everything.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import takewhile

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from libs.code_blocks.protocol import Execution
from libs.code_blocks.reader import read_reply

__all__ = ["error_line", "error_of", "failed_turns", "failing_line", "sent"]

_ERROR = re.compile(
    r"^(?:[\w.]*(?:Error|Exception|Interrupt|Exit|Warning)\b|(?:[a-z_]\w*\.)+[A-Z]\w*(?=: )).*", re.MULTILINE
)

_OWN_LINE = re.compile(r'^  File "<block \d+>", line \d+.*\n {4}(\S.*)$', re.MULTILINE)
"""The line of a block in a traceback, below where it stands."""


def failed_turns(messages: Sequence[AnyMessage], executions: Sequence[Execution]) -> list[AnyMessage]:
    """The turns since the last block that succeeded, the latest reply included.

    Args:
        messages: the conversation, up to the latest reply; each reply has one block at most.
        executions: of the run, in order, that of the latest reply included.
    """
    failed = [done["code"] for done in takewhile(lambda done: done["exit_code"], reversed(executions))]
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if failed and isinstance(message, AIMessage):
            # One that a person refused has not failed.
            if failed[0] in [block.code for block in read_reply(message.text).blocks]:
                failed.pop(0)
            if not failed:
                return list(messages[index:])
    return []


def error_line(output: str) -> str:
    """The line of an output that says what went wrong: the error's, where none is found the last one."""
    found = _ERROR.findall(output)
    return found[-1] if found else output.rstrip().rpartition("\n")[2]


def failing_line(output: str) -> str:
    """The line of a block in which its error happened; "" where an output does not show it."""
    found = _OWN_LINE.findall(output)
    return found[-1].strip() if found else ""


def error_of(output: str) -> str:
    """What an output says of the error in the end, without the lines of the code."""
    found = list(_ERROR.finditer(output))
    return output[found[-1].start() :] if found else "\n".join(output.rstrip().split("\n")[-3:])


def sent(
    opening: Sequence[AnyMessage], messages: Sequence[AnyMessage], forgotten: Collection[str]
) -> list[AnyMessage]:
    """What a model is sent; two messages of a person that come to stand together become one."""
    kept = list(opening)
    for message in messages:
        if message.id in forgotten:
            continue
        last = kept[-1] if kept else None
        if isinstance(message, HumanMessage) and isinstance(last, HumanMessage):
            kept[-1] = HumanMessage(f"{last.text}\n\n{message.text}", id=last.id)
        else:
            kept.append(message)
    return kept
