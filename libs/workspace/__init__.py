"""The workspace as a value: captured, compared, restored. Knows nothing of LangChain.

The sandbox walks, hashes and writes. The host checks every content and keeps it once.
"""

from __future__ import annotations

from libs.workspace.background_prune import BackgroundPrune
from libs.workspace.catalog import Catalog, ManifestMissing
from libs.workspace.contents import ContentMissing, Contents, SnapshotsUnavailable
from libs.workspace.history import Moved, NoCapture, WorkspaceHistory
from libs.workspace.capture_ledger import Ledger, WayBack
from libs.workspace.manifest import Difference, Entry, Manifest
from libs.workspace.pruner import Pruned, Pruner
from libs.workspace.restoring import HalfRestored
from libs.workspace.store import Captured, Restored, WorkspaceStore
from libs.workspace.store_usage import ThreadUse, thread_uses
from libs.workspace.tickets import made_at

__all__ = [
    "BackgroundPrune",
    "Captured",
    "Catalog",
    "ContentMissing",
    "Contents",
    "Difference",
    "Entry",
    "HalfRestored",
    "Ledger",
    "Manifest",
    "ManifestMissing",
    "Moved",
    "NoCapture",
    "Pruned",
    "Pruner",
    "Restored",
    "SnapshotsUnavailable",
    "ThreadUse",
    "WayBack",
    "WorkspaceHistory",
    "WorkspaceStore",
    "made_at",
    "thread_uses",
]
