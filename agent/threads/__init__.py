"""Opens the database of threads, and lets one run at a time work in a thread.

In: the settings and a thread's id. Out: the checkpointer, a lock on the thread, its memory, and its files on
this machine.
"""

from __future__ import annotations

from agent.threads.checkpointer import open_threads, place
from agent.threads.copied_files import NotEmpty, copy_files
from agent.threads.drain import DRAIN, CutOff
from agent.threads.exported_files import ExportedFiles
from agent.threads.thread_turns import AT_WORK, held, taking_turns

__all__ = [
    "AT_WORK",
    "DRAIN",
    "CutOff",
    "ExportedFiles",
    "NotEmpty",
    "copy_files",
    "held",
    "open_threads",
    "place",
    "taking_turns",
]
