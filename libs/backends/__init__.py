"""Offers a sandbox as a deepagents backend.

In comes a sandbox. Out comes a backend with files and `execute`, in which some folders are read-only.
"""

from __future__ import annotations

from libs.backends.workspace_backend import WorkspaceBackend

__all__ = ["WorkspaceBackend"]
