"""The graph state of the code-block agent: input, output, and private values."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from libs.code_blocks.block_protocol import BlockCall
from libs.middleware.budget import Spent
from libs.middleware.captures import later
from libs.sandbox import Execution

__all__ = ["CodeState", "Input", "Output"]


class Input(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Output(Input):
    status: NotRequired[str | None]
    """How the latest run ended. None while the run continues or waits for approval."""
    executions: NotRequired[list[Execution]]
    """All executions of the latest run, in order."""
    absent_paths: NotRequired[list[str]]
    """Paths that the latest task names and that did not exist when the run began."""


class CodeState(Output):
    opening: NotRequired[list[AnyMessage]]
    """The messages before the conversation."""
    task: NotRequired[str]
    """The text of the person's message."""
    steps: NotRequired[int]
    """Number of replies in the run."""
    nudges: NotRequired[int]
    """Number of requests for code since the last block."""
    blocks: NotRequired[list[BlockCall]]
    """The blocks of the latest reply with code. The node `approve` adds the decisions."""
    remarks: NotRequired[str]
    """Remarks about that reply, sent with the output of its blocks."""
    cut_off: NotRequired[bool]
    """Whether the process was killed while the latest blocks ran. Their failures need no repair."""
    ending: NotRequired[Any]
    """Saved by `Ending.prepared` (see `run_end_hooks`)."""
    run_budget: NotRequired[Spent]
    """The calls, seconds and tokens that the run has used."""
    grants: NotRequired[Annotated[dict[str, Any], operator.or_]]
    """Approvals for the rest of the thread. The gate reads them; no node writes them."""
    workspace: NotRequired[Annotated[str | None, later]]
    """The ticket of the latest capture of the workspace: see `libs.middleware.captures`."""
    workspace_told: NotRequired[str]
    """The latest note about files that were brought back, which the model has got."""
    grants_at_reply: NotRequired[Mapping[str, Any]]
    """`grants` at the time of the latest reply."""
    rules_at_reply: NotRequired[str]
    """Digest of the rules file at the time of the latest reply."""
