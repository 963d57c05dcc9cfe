"""An agent that writes code in Markdown blocks: any model that can write code can do the work."""

from __future__ import annotations

from libs.code_blocks.loop import CodeLoop
from libs.code_blocks.protocol import (
    BlockCall,
    BlockResult,
    BlockRunner,
    Earlier,
    Execution,
    Files,
    Gate,
    Meter,
    Refused,
)
from libs.code_blocks.reader import LANGUAGES, Block, Reading, read_reply
from libs.code_blocks.runner import SandboxRunner

__all__ = [
    "LANGUAGES",
    "Block",
    "BlockCall",
    "BlockResult",
    "BlockRunner",
    "CodeLoop",
    "Earlier",
    "Execution",
    "Files",
    "Gate",
    "Meter",
    "Reading",
    "Refused",
    "SandboxRunner",
    "read_reply",
]
