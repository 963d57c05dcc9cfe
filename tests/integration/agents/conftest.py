"""The workspace and the backend that tests of a whole agent share."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.config import build_backend
from agent.settings import ROOT, load_settings
from libs.backends import WorkspaceBackend


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    shutil.copy(ROOT / "workspace" / "data" / "sales.csv", tmp_path / "data")
    return tmp_path


@pytest.fixture
async def backend(workspace: Path) -> AsyncIterator[WorkspaceBackend]:
    backend = build_backend(load_settings(None, workspace_dir=workspace))
    with backend.default:  # type: ignore[attr-defined]
        yield backend
