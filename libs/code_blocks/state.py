"""What a thread keeps of its code blocks: what comes in, what goes out, and what is in between."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from libs.code_blocks.protocol import Execution

__all__ = ["Approved", "CodeState", "Input", "Output"]


class Input(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Output(Input):
    status: NotRequired[str | None]
    """How the latest run ended; None while it goes on or waits for approval."""
    executions: NotRequired[list[Execution]]
    """What the latest run has run, in order."""


class Approved(TypedDict):
    """A block of the latest reply as it will run; `refused` is why it will not."""

    language: str
    code: str
    key: str
    refused: str | None
    granted: NotRequired[str | None]
    """Where nobody was asked: the scope of the earlier approval (see `Earlier`)."""


class CodeState(Output):
    opening: NotRequired[list[AnyMessage]]
    """What the run's requests begin with."""
    task: NotRequired[str]
    """What the person said."""
    steps: NotRequired[int]
    """Replies of the run."""
    nudges: NotRequired[int]
    """Requests for code since the last block."""
    approved: NotRequired[list[Approved]]
    cut_off: NotRequired[bool]
    """Whether the program was stopped while the latest blocks ran: what failed then need not be mended."""
    ending: NotRequired[Any]
    """What others speak about behind the answer: see `libs.code_blocks.ending`."""
    run_budget: NotRequired[dict[str, Any]]
    """What the run has used."""
    grants: NotRequired[Annotated[dict[str, Any], operator.or_]]
    """What a person has approved for the rest of the thread. The gate reads it; nodes never write it."""
    grants_at_reply: NotRequired[Mapping[str, Any]]
    """`grants` when the latest reply was made."""
