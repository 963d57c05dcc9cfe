"""Captures the workspaces of threads around their steps, and brings files back to an earlier moment.

In come the moments of a thread, named by tickets. Out come captures in the ledger, and files brought back.
"""

from __future__ import annotations

from libs.workspace.history.call_effects import AskFirst, Effect, IsFree, Undone
from libs.workspace.history.effect_runs import EffectRuns
from libs.workspace.history.thread_files import NoCapture, ThreadFiles, TurnChange
from libs.workspace.history.thread_history import Moved, WorkspaceHistory
from libs.workspace.history.travels import FilesNotKept, Travels, Unkept
from libs.workspace.history.turn_captures import TurnCaptures
from libs.workspace.history.workplace import Workplace
from libs.workspace.history.workspace_locks import WorkspaceLocks

__all__ = [
    "AskFirst",
    "Effect",
    "EffectRuns",
    "FilesNotKept",
    "IsFree",
    "Moved",
    "NoCapture",
    "ThreadFiles",
    "Travels",
    "TurnCaptures",
    "TurnChange",
    "Undone",
    "Unkept",
    "Workplace",
    "WorkspaceHistory",
    "WorkspaceLocks",
]
