"""The private names of libraries that `libs` uses, each with its reason.

`tests/unit/house/test_contracts.py` checks them against the installed versions.
"""

from __future__ import annotations

from deepagents.backends.utils import _get_backend_read_file_type
from langchain.agents.middleware.human_in_the_loop import _EDITED_TOOL_CALLS_KEY as EDITED_TOOL_CALLS
from langgraph._internal._constants import NULL_TASK_ID
from langgraph.constants import CONFIG_KEY_CHECKPOINTER

__all__ = ["CONFIG_KEY_CHECKPOINTER", "EDITED_TOOL_CALLS", "NULL_TASK_ID", "is_read_as_text"]

# CONFIG_KEY_CHECKPOINTER: the key of the checkpointer in a run's config. LangGraph's server passes the
# checkpointer at run time, so a graph cannot know it earlier. LangGraph reserves the name for the server.
#
# EDITED_TOOL_CALLS: the key of the state under which LangChain's approval middleware looks for the calls that
# a person edited. Our middleware writes them there, and LangChain's then runs them.
#
# NULL_TASK_ID: LangGraph stores the update of a `Command` under this task id beside a checkpoint.
# `update_state` would instead make a new checkpoint, on which waiting subagents would start again.


def is_read_as_text(path: str) -> bool:
    """Return whether `read_file` of deepagents wants lines of a file, and not its bytes.

    deepagents decides by the file's ending, and makes the content block of a picture from its bytes.
    """
    return _get_backend_read_file_type(path) == "text"
