"""Keeps the captures of each workspace in order, the tickets that name them, and who may add captures.

In come captures, moments of threads and claims of sandboxes. Out come rows of the database: which capture
belongs to which moment, where a thread is among its moments, and which sandbox holds it.
"""

from __future__ import annotations

from libs.workspace.ledger.capture_ledger import Ledger, Row, thread_workspace
from libs.workspace.ledger.claims import ClaimLost, Claims
from libs.workspace.ledger.packed_changes import packed, unpacked
from libs.workspace.ledger.thread_places import Move, News, ThreadPlaces, WayBack
from libs.workspace.ledger.tickets import NOTHING_RAN, START, Ticket, made_at

__all__ = [
    "NOTHING_RAN",
    "START",
    "ClaimLost",
    "Claims",
    "Ledger",
    "Move",
    "News",
    "Row",
    "ThreadPlaces",
    "Ticket",
    "WayBack",
    "made_at",
    "packed",
    "thread_workspace",
    "unpacked",
]
