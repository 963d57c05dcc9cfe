"""The code-block agent: a model writes Markdown code blocks, and the loop runs them in a sandbox.

In: the messages of a thread. Out: the answer, a status, and the record of every execution.
"""

from __future__ import annotations

from libs.code_blocks.block_approvals import EDITS
from libs.code_blocks.block_feedback import PROBLEMS
from libs.code_blocks.block_loop import CodeLoop
from libs.code_blocks.block_protocol import Files
from libs.code_blocks.block_reader import Reading, read_reply, without_thoughts
from libs.code_blocks.block_runner import SandboxRunner
from libs.code_blocks.run_end_hooks import Ending

__all__ = [
    "EDITS",
    "PROBLEMS",
    "CodeLoop",
    "Ending",
    "Files",
    "Reading",
    "SandboxRunner",
    "read_reply",
    "without_thoughts",
]
