"""Bounds the store of workspaces: removes old captures, and contents that no capture needs.

In come a bound in bytes and deleted threads. Out comes what was removed, or what is kept for each thread.
"""

from __future__ import annotations

from libs.workspace.prune.background_prune import BackgroundPrune
from libs.workspace.prune.pruner import Pruned, Pruner
from libs.workspace.prune.store_usage import ThreadUse, thread_uses

__all__ = ["BackgroundPrune", "Pruned", "Pruner", "ThreadUse", "thread_uses"]
