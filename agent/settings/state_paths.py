"""Paths of the files that this installation keeps."""

from __future__ import annotations

from pathlib import Path

__all__ = [
    "COMMANDS",
    "DECISIONS",
    "LEARNED",
    "LITE_ROOT",
    "LOCKS",
    "MEMORY",
    "PACKAGES",
    "ROOT",
    "RULES",
    "THREADS",
    "WORKSPACES",
]

ROOT = Path(__file__).absolute().parents[2]
"""The checkout, which holds `skills/`."""

LITE_ROOT = ROOT / "sandbox-lite"
"""The folder that `/run-lite` works in."""

LEARNED = Path(".code-agent/skills/learned")
"""Approved skills of agents, below the working directory."""

RULES = Path(".code-agent/approvals.toml")
"""The rules file, below the working directory, where APPROVAL_RULES is unset."""

DECISIONS = Path(".code-agent/decisions.jsonl")
"""Record of the decisions on gated calls, below the working directory."""

THREADS = Path(".code-agent/threads.sqlite")
"""Checkpoints of threads, below the working directory."""

LOCKS = THREADS.parent / "locks"
"""Folder of the threads' locks: see `libs.persistence.locked_thread`."""

MEMORY = Path(".code-agent/memory.sqlite")
"""Messages, values and files of the one-tool agent's threads, below the working directory."""

PACKAGES = Path(".code-agent/servers")
"""Packages of MCP servers, below the working directory. Sandboxes can read them."""

COMMANDS = Path(".code-agent/commands.sqlite")
"""Records of begun and ended commands, below the working directory."""

WORKSPACES = Path(".code-agent/workspaces.sqlite")
"""What names the captured workspaces of threads. SNAPSHOTS_URL has their contents."""
