"""Several files as one table of `skills.tables`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "2023-01.csv").write_text("day,sold\n2023-01-05,3\n")
    (tmp_path / "2023-02.csv").write_text("sold,day,note\n4,2023-02-01,late\n5,2023-02-02,\n")
    (tmp_path / "shops.csv").write_text("shop\nA\n")
    return tmp_path


def test_a_pattern_names_files_in_order(tables: Any, folder: Path) -> None:
    found = tables("_files").several(folder / "2023-*.csv")
    assert [path.name for path in found] == ["2023-01.csv", "2023-02.csv"]
    assert tables("_files").several(folder / "shops.csv") == []


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tables: Any, folder: Path) -> None:
    (folder / "a[1].csv").write_text("x\n1\n")
    assert tables("_files").several(folder / "a[1].csv") == []


def test_their_rows_stand_one_below_the_other(tables: Any, folder: Path) -> None:
    files = tables("_files")
    raw = files.read_all(files.several(folder / "2023-*.csv"))
    assert raw.names == ["day", "sold", "note", "file"]
    assert raw.columns == [
        ["2023-01-05", "2023-02-01", "2023-02-02"],
        ["3", "4", "5"],
        [None, "late", ""],
        ["2023-01.csv", "2023-02.csv", "2023-02.csv"],
    ]
    assert raw.notes == ["2023-01.csv: has no note"]


def test_a_column_called_file_is_kept(tables: Any, tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("file\nx\n")
    files = tables("_files")
    assert files.read_all(files.several(tmp_path / "*.csv")).names == ["file", "file_name"]


def test_no_such_files(tables: Any, folder: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"no file is called like .*2024-\*\.csv; .* has: 2023-01\.csv, "
    ):
        tables("_files").several(folder / "2024-*.csv")
    with pytest.raises(FileNotFoundError, match="no file is called like"):
        tables("_files").several(folder / "none" / "*.csv")


def test_together_they_may_be_too_large(tables: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("n\n" + "123456789\n" * 5)
    files = tables("_files")
    monkeypatch.setattr(files, "MAX_BYTES", 60)
    with pytest.raises(ValueError, match="2 files have over 0 MB: load them one by one"):
        files.read_all(files.several(tmp_path / "*.csv"))


def test_files_of_several_folders_are_told_apart(tables: Any, tmp_path: Path) -> None:
    for folder in ("north", "south"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "shop.csv").write_text("n\n1\n")
    files = tables("_files")
    raw = files.read_all(files.several(tmp_path / "*" / "shop.csv"))
    assert raw.columns[1] == ["north/shop.csv", "south/shop.csv"]


def test_what_is_no_path_is_none(tables: Any) -> None:
    with pytest.raises(TypeError):
        tables("_files").several({"a": [1]})
