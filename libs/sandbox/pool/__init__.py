"""Gives each thread its own sandbox, or each task a fresh sandbox. Spare sandboxes are started in advance.

In comes a thread's id or a task. Out comes a sandbox.
"""

from __future__ import annotations

from libs.sandbox.pool.by_thread import SandboxesByThread
from libs.sandbox.pool.per_task import Fresh, FreshSandboxes
from libs.sandbox.pool.per_thread import SandboxPool
from libs.sandbox.pool.spares import Ready

__all__ = ["Fresh", "FreshSandboxes", "Ready", "SandboxPool", "SandboxesByThread"]
