"""The private names of libraries that `libs` uses, each with its reason.

`tests/unit/house/test_contracts.py` checks them against the installed versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from deepagents.backends.utils import _get_backend_read_file_type
from langchain.agents.middleware.human_in_the_loop import _EDITED_TOOL_CALLS_KEY as EDITED_TOOL_CALLS
from langgraph._internal._constants import (
    CONFIG_KEY_CHECKPOINT_MAP,
    CONFIG_KEY_DURABILITY,
    CONFIG_KEY_SCRATCHPAD,
    CONFIG_KEY_TASK_ID,
    INTERRUPT,
    NULL_TASK_ID,
    RESUME,
)
from langgraph.constants import CONFIG_KEY_CHECKPOINTER

__all__ = [
    "CONFIG_KEY_CHECKPOINTER",
    "CONFIG_KEY_CHECKPOINT_MAP",
    "CONFIG_KEY_DURABILITY",
    "CONFIG_KEY_SCRATCHPAD",
    "CONFIG_KEY_TASK_ID",
    "EDITED_TOOL_CALLS",
    "INTERRUPT",
    "NULL_TASK_ID",
    "RESUME",
    "USED_IN_PLACE",
    "is_read_as_text",
]

# CONFIG_KEY_CHECKPOINTER: the key of the checkpointer in a run's config. LangGraph's server passes the
# checkpointer at run time, so a graph cannot know it earlier. LangGraph reserves the name for the server.
#
# EDITED_TOOL_CALLS: the key of the state under which LangChain's approval middleware looks for the calls that
# a person edited. Our middleware writes them there, and LangChain's then runs them.
#
# NULL_TASK_ID: LangGraph stores the update of a `Command` under this task id beside a checkpoint.
# `update_state` would instead make a new checkpoint, on which waiting subagents would start again.
#
# CONFIG_KEY_TASK_ID, CONFIG_KEY_CHECKPOINT_MAP, CONFIG_KEY_SCRATCHPAD, CONFIG_KEY_DURABILITY, INTERRUPT and
# RESUME: a graph that is a node of another graph reads from its config that it is one, the outermost
# checkpoint, the answer that LangGraph keeps there (RESUME), and the questions that wait there (INTERRUPT).
# Nothing public tells a nested graph of an answer, which could otherwise decide a later question.

USED_IN_PLACE: Final[Mapping[str, str]] = {
    "deepagents.backends.composite.CompositeBackend._get_backend_and_key": (
        "WorkspaceBackend overrides it to normalise a path before it is routed. All operations on one file "
        "call it. There is no public method for this, so each operation would have to be overridden."
    ),
    "socket.SocketIO._sock": (
        "AttachedTransport needs the socket below the file that Docker's SDK returns: the file cannot send "
        "without waiting or shut down the connection. A copy of its descriptor would leave the socket itself "
        "open in a forked child."
    ),
}
"""Names that cannot be imported from here: inherited methods, attributes of objects. Name -> reason."""


def is_read_as_text(path: str) -> bool:
    """Return whether `read_file` of deepagents wants lines of a file, and not its bytes.

    deepagents decides by the file's ending, and makes the content block of a picture from its bytes.
    """
    return _get_backend_read_file_type(path) == "text"
