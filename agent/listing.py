"""The listing of /data that models are sent: made in the sandbox, by a program that is sent there."""

from __future__ import annotations

import shlex
from pathlib import Path

from agent import list_columns, list_data, list_json
from libs.sandbox import SandboxError
from libs.sandbox.protocol import Sandbox

__all__ = ["LISTING_SECONDS", "PROGRAM", "data_listing"]

LISTING_SECONDS = 10.0
"""Seconds that a look at the sandbox's files may take before a model is asked."""

_PARTS = "".join(
    f"part = sys.modules[{module.__name__!r}] = types.ModuleType({module.__name__!r})\n"
    f"exec({Path(str(module.__file__)).read_text(encoding='utf-8')!r}, part.__dict__)\n"
    for module in (list_columns, list_json)
)
PROGRAM = f"""
import sys, types
{_PARTS}exec({Path(list_data.__file__).read_text(encoding="utf-8")!r})
"""
"""All these modules in one text: in the sandbox there is nothing that one could import another from."""


async def data_listing(sandbox: Sandbox) -> str:
    """The listing of /data, "" where it cannot be had: the first block then says what is wrong."""
    command = f"python3 -I -c {shlex.quote(PROGRAM)} /data"
    try:
        result = await sandbox.arun(command, timeout=LISTING_SECONDS, merge_stderr=False)
    except SandboxError:
        return ""
    return result.output if result.exit_code == 0 else ""
