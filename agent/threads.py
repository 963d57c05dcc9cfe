"""Where threads are kept, in the working directory."""

from __future__ import annotations

from pathlib import Path

__all__ = ["LOCKS", "THREADS"]

THREADS = Path(".code-agent/threads.sqlite")
"""The database of threads."""

LOCKS = THREADS.parent / "locks"
"""Who works in a thread holds its lock in this folder: see `libs.persistence.thread_lock`."""
