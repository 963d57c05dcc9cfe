"""A model that plays turns which can be counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.workspace.counted_turns import SCRIPT


@pytest.fixture
def counting_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("script.yaml").write_text(SCRIPT)
    monkeypatch.setenv("MODEL", "scripted:script.yaml")
    monkeypatch.setenv("APPROVALS", "auto")
