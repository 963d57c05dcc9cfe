"""Which capture of a workspace belongs to which moment of a thread, and the way back to it.

In come the moments of a thread, named by tickets. Out come captures in the ledger, and files brought back.
"""

from __future__ import annotations

from libs.workspace.history.background_prune import BackgroundPrune
from libs.workspace.history.capture_ledger import Ledger
from libs.workspace.history.pruner import Pruned, Pruner
from libs.workspace.history.store_usage import ThreadUse, thread_uses
from libs.workspace.history.thread_files import NoCapture, TurnChange
from libs.workspace.history.thread_history import Moved, WorkspaceHistory
from libs.workspace.history.thread_places import News, WayBack
from libs.workspace.history.tickets import made_at
from libs.workspace.history.turn_captures import TurnCaptures
from libs.workspace.history.workplace import Workplace

__all__ = [
    "BackgroundPrune",
    "Ledger",
    "Moved",
    "News",
    "NoCapture",
    "Pruned",
    "Pruner",
    "ThreadUse",
    "TurnCaptures",
    "TurnChange",
    "WayBack",
    "Workplace",
    "WorkspaceHistory",
    "made_at",
    "thread_uses",
]
