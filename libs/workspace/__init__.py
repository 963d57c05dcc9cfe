"""The workspace as a value: captured, compared, restored. Knows nothing of LangChain.

The sandbox walks, hashes and writes. The host checks every content and keeps it once.
"""

from __future__ import annotations

from libs.workspace.catalog import Catalog, ManifestMissing, in_parts, manifest_missing
from libs.workspace.contents import ContentMissing, Contents, SnapshotsUnavailable
from libs.workspace.manifest import Change, Difference, Entry, Manifest, folders_above, inside, shown
from libs.workspace.restoring import HalfRestored
from libs.workspace.store import Captured, Restored, WorkspaceStore
from libs.workspace.store_place import StorePlace
from libs.workspace.transfer import batches, bring_to, read_parts, steps_to, walked

__all__ = [
    "Captured",
    "Catalog",
    "Change",
    "ContentMissing",
    "Contents",
    "Difference",
    "Entry",
    "HalfRestored",
    "Manifest",
    "ManifestMissing",
    "Restored",
    "SnapshotsUnavailable",
    "StorePlace",
    "WorkspaceStore",
    "batches",
    "bring_to",
    "folders_above",
    "in_parts",
    "inside",
    "manifest_missing",
    "read_parts",
    "shown",
    "steps_to",
    "walked",
]
