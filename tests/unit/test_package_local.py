"""Package indexes on the host's disk: what they list is served, and nothing else of the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from libs.gateway.errors import GatewayError
from libs.gateway.packages.local_files import LocalIndex


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """An index with its files beside it, as mirrors have them."""
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


def test_files_that_lie_beside_an_index(mirror: Path) -> None:
    index = LocalIndex((mirror / "simple").as_uri())
    listed = index.of_project("thing")
    assert listed is not None
    assert [file.name for file in listed] == ["thing-1.0.zip", "secret-1.0.zip"]
    assert read(index, listed[0].url) == b"package"


def test_no_link_of_a_page_leads_out(mirror: Path) -> None:
    index = LocalIndex((mirror / "simple").as_uri())
    listed = index.of_project("thing") or []
    with pytest.raises(GatewayError, match="leads out of the folder of its index"):
        index.open(listed[1].url)


def test_no_symbolic_link_leads_out(mirror: Path) -> None:
    (mirror / "files" / "thing-1.0.zip").unlink()
    (mirror / "files" / "thing-1.0.zip").symlink_to("../../secret-1.0.zip")
    index = LocalIndex((mirror / "simple").as_uri())
    with pytest.raises(GatewayError, match="leads out"):
        index.open((mirror / "files" / "thing-1.0.zip").as_uri())


def test_a_link_that_stays_inside_is_followed(mirror: Path) -> None:
    (mirror / "files" / "thing-2.0.zip").symlink_to("thing-1.0.zip")
    index = LocalIndex((mirror / "simple").as_uri())
    assert read(index, (mirror / "files" / "thing-2.0.zip").as_uri()) == b"package"


def test_a_page_that_is_a_link_out_is_refused(mirror: Path, tmp_path: Path) -> None:
    (tmp_path / "other.html").write_text('<a href="thing-1.0.zip">x</a>')
    (mirror / "simple" / "other").mkdir()
    (mirror / "simple" / "other" / "index.html").symlink_to(tmp_path / "other.html")
    with pytest.raises(GatewayError, match="leads out"):
        LocalIndex((mirror / "simple").as_uri()).of_project("other")


def test_what_is_no_file_is_refused_at_once(mirror: Path) -> None:
    os.mkfifo(mirror / "files" / "pipe-1.0.zip")
    index = LocalIndex((mirror / "simple").as_uri())
    with pytest.raises(GatewayError, match="is no file"):
        index.open((mirror / "files" / "pipe-1.0.zip").as_uri())


def test_loops_and_files_that_are_gone(mirror: Path) -> None:
    (mirror / "files" / "loop-1.0.zip").symlink_to("loop-1.0.zip")
    index = LocalIndex((mirror / "simple").as_uri())
    assert read(index, (mirror / "files" / "loop-1.0.zip").as_uri()) is None
    assert read(index, (mirror / "files" / "gone-1.0.zip").as_uri()) is None


def test_a_project_that_it_does_not_have(mirror: Path) -> None:
    assert LocalIndex((mirror / "simple").as_uri()).of_project("other") is None


def test_a_folder_lists_its_packages(mirror: Path) -> None:
    (mirror / "files" / "notes.txt").write_text("not for you")
    (mirror / "files" / "folder").mkdir()
    index = LocalIndex((mirror / "files").as_uri())
    assert [file.name for file in index.listed()] == ["thing-1.0.zip"]
    assert read(index, index.listed()[0].url) == b"package"


def test_a_page_and_a_single_file(mirror: Path) -> None:
    (mirror / "files" / "all.html").write_text('<a href="thing-1.0.zip">x</a>')
    page = LocalIndex((mirror / "files" / "all.html").as_uri())
    assert [file.name for file in page.listed()] == ["thing-1.0.zip"]
    file = LocalIndex((mirror / "files" / "thing-1.0.zip").as_uri())
    assert [read(file, listed.url) for listed in file.listed()] == [b"package"]
    assert LocalIndex((mirror / "gone").as_uri()).listed() == []


@pytest.mark.parametrize("writable", [".", "files", "simple/thing", ".."])
def test_one_that_the_sandbox_can_write_to_is_not_served(mirror: Path, writable: str) -> None:
    with pytest.raises(GatewayError, match="lies in the workspace, or around it"):
        LocalIndex((mirror / "simple").as_uri(), [mirror / writable])


def test_a_workspace_elsewhere_is_no_matter(mirror: Path, tmp_path: Path) -> None:
    LocalIndex((mirror / "simple").as_uri(), [tmp_path / "workspace"])
