"""The files that a run made are found in two listings of its folder."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agent.listing import listing, made_since, produced_files


def test_file_that_an_earlier_listing_left_out_is_not_called_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produced_files, "_MOST", 10)
    (tmp_path / "results").mkdir()
    (tmp_path / "data").mkdir()
    for number in range(8):
        (tmp_path / "results" / str(number)).touch()
        (tmp_path / "data" / str(number)).touch()
    before = listing(tmp_path)
    assert before.cut_at
    for number in range(8):
        (tmp_path / "results" / str(number)).unlink()
    time.sleep(0.02)  # the clock of files is coarser
    (tmp_path / "results" / "new").touch()
    after = listing(tmp_path)
    assert len(after) == 9
    assert made_since(before, after) == ["results/new"]
