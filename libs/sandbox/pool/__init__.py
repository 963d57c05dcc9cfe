"""Gives each thread its own sandbox, or each task a fresh sandbox. Spare sandboxes are started in advance.

In comes a thread's id or a task. Out comes a sandbox.
"""

from __future__ import annotations

from libs.sandbox.pool.per_task import Fresh, FreshSandboxes
from libs.sandbox.pool.per_thread import SandboxPool

__all__ = ["Fresh", "FreshSandboxes", "SandboxPool"]
