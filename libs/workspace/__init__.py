"""The workspace as a value: captured, compared, restored. Knows nothing of LangChain.

In come a sandbox and the id of a capture. Out come manifests, differences and restored files. The sandbox walks,
hashes and writes; the host checks every content and keeps it once.
"""

from __future__ import annotations

from libs.workspace.catalog import Catalog, ManifestMissing
from libs.workspace.contents import ContentMissing, Contents, SnapshotsUnavailable
from libs.workspace.history import Moved, NoCapture, WorkspaceHistory
from libs.workspace.ledger import Ledger, WayBack, made_at
from libs.workspace.manifest import Difference, Entry, Manifest
from libs.workspace.store import Captured, Restored, WorkspaceStore

__all__ = [
    "Captured",
    "Catalog",
    "ContentMissing",
    "Contents",
    "Difference",
    "Entry",
    "Ledger",
    "Manifest",
    "ManifestMissing",
    "Moved",
    "NoCapture",
    "Restored",
    "SnapshotsUnavailable",
    "WayBack",
    "WorkspaceHistory",
    "WorkspaceStore",
    "made_at",
]
