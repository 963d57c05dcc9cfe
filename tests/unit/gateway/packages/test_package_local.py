"""Package indexes on the host's disk: only listed files below their folder are served."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from libs.gateway.gateway_errors import GatewayError
from libs.gateway.packages.local_files import LocalIndex


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """An index with its files in a folder beside it, as mirrors have."""
    root = tmp_path / "mirror"
    (root / "files").mkdir(parents=True)
    (root / "files" / "thing-1.0.zip").write_bytes(b"package")
    page = root / "simple" / "thing" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text('<a href="../../files/thing-1.0.zip">x</a><a href="../../../secret-1.0.zip">y</a>')
    (tmp_path / "secret-1.0.zip").write_bytes(b"secret")
    return root


def read(index: LocalIndex, url: str) -> bytes | None:
    opened = index.open(url)
    if opened is None:
        return None
    with opened[0] as file:
        content = file.read()
    assert len(content) == opened[1]
    return content


def test_page_link_out_of_the_folder_is_refused(mirror: Path) -> None:
    index = LocalIndex((mirror / "simple").as_uri())
    listed = index.of_project("thing") or []
    with pytest.raises(GatewayError, match="leads out of the folder of its index"):
        index.open(listed[1].url)


def test_symbolic_link_out_of_the_folder_is_refused(mirror: Path, tmp_path: Path) -> None:
    """Links of files and pages are checked; a link that stays inside is followed."""
    (mirror / "files" / "secret-1.0.zip").symlink_to("../../secret-1.0.zip")
    (mirror / "files" / "thing-2.0.zip").symlink_to("thing-1.0.zip")
    (tmp_path / "other.html").write_text('<a href="thing-1.0.zip">x</a>')
    (mirror / "simple" / "other").mkdir()
    (mirror / "simple" / "other" / "index.html").symlink_to(tmp_path / "other.html")
    index = LocalIndex((mirror / "simple").as_uri())
    with pytest.raises(GatewayError, match="leads out"):
        index.open((mirror / "files" / "secret-1.0.zip").as_uri())
    with pytest.raises(GatewayError, match="leads out"):
        index.of_project("other")
    assert read(index, (mirror / "files" / "thing-2.0.zip").as_uri()) == b"package"


def test_pipes_loops_and_missing_files(mirror: Path) -> None:
    os.mkfifo(mirror / "files" / "pipe-1.0.zip")
    (mirror / "files" / "loop-1.0.zip").symlink_to("loop-1.0.zip")
    index = LocalIndex((mirror / "simple").as_uri())
    with pytest.raises(GatewayError, match="is not a file"):
        index.open((mirror / "files" / "pipe-1.0.zip").as_uri())
    assert read(index, (mirror / "files" / "loop-1.0.zip").as_uri()) is None
    assert read(index, (mirror / "files" / "gone-1.0.zip").as_uri()) is None
    assert index.of_project("other") is None


def test_folder_lists_its_packages(mirror: Path) -> None:
    (mirror / "files" / "notes.txt").write_text("not for you")
    (mirror / "files" / "folder").mkdir()
    index = LocalIndex((mirror / "files").as_uri())
    assert [file.name for file in index.listed()] == ["thing-1.0.zip"]
    assert read(index, index.listed()[0].url) == b"package"


@pytest.mark.parametrize("writable", [".", "files", ".."])
def test_index_that_the_sandbox_can_write_is_not_served(mirror: Path, writable: str) -> None:
    with pytest.raises(GatewayError, match="lies in the workspace, or around it"):
        LocalIndex((mirror / "simple").as_uri(), [mirror / writable])
    LocalIndex((mirror / "simple").as_uri(), [mirror.parent / "workspace"])
