"""Runs commands, code blocks and file operations in a sandbox. Does not depend on LangChain.

In comes a command, a block or a file operation, with a time limit. Out comes a `RunResult` or the content of
a file, or an error if the sandbox itself fails.
"""

from __future__ import annotations

from libs.sandbox.declarations import declared_uses
from libs.sandbox.errors import (
    CommandInterrupted,
    CommandUnderWay,
    DockerUnavailable,
    ImageMissing,
    KeyReused,
    RecordUnavailable,
    SandboxBusy,
    SandboxDied,
    SandboxError,
    WorkspaceMissing,
    program,
)
from libs.sandbox.image_contents import guest_tree
from libs.sandbox.limits import MAX_TIMEOUT, SandboxLimits
from libs.sandbox.process_owner import owner_gone
from libs.sandbox.protocol import Execution, FileFailed, OnOutput, RunResult, Sandbox
from libs.sandbox.skill_mounts import LEARNED_MOUNT, OWN_MOUNT, command_places, is_trusted
from libs.sandbox.tree_protocol import Tree
from libs.sandbox.workspace import (
    FOLDERS,
    in_one_line,
    refuse_as_workspace,
    refuse_unwritable,
    thread_folder,
)

__all__ = [
    "FOLDERS",
    "LEARNED_MOUNT",
    "MAX_TIMEOUT",
    "OWN_MOUNT",
    "CommandInterrupted",
    "CommandUnderWay",
    "DockerUnavailable",
    "Execution",
    "FileFailed",
    "ImageMissing",
    "KeyReused",
    "OnOutput",
    "RecordUnavailable",
    "RunResult",
    "Sandbox",
    "SandboxBusy",
    "SandboxDied",
    "SandboxError",
    "SandboxLimits",
    "Tree",
    "WorkspaceMissing",
    "command_places",
    "declared_uses",
    "guest_tree",
    "in_one_line",
    "is_trusted",
    "owner_gone",
    "program",
    "refuse_as_workspace",
    "refuse_unwritable",
    "thread_folder",
]
