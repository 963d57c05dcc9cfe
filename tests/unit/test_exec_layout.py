"""What goes into a sandbox and what is taken out of it: archives that are read, never unpacked (X4)."""

from __future__ import annotations

import io
import tarfile

import pytest

from libs.exec_tool.layout import collected, packed


def archive(*members: tuple[str, bytes | str]) -> bytes:
    """A workspace as tar packs it; text is where a link leads."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as opened:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                opened.addfile(info, io.BytesIO(content))
            else:
                info.type, info.linkname = tarfile.SYMTYPE, content
                opened.addfile(info)
    return written.getvalue()


def test_what_goes_in() -> None:
    with tarfile.open(fileobj=io.BytesIO(packed({"a/b.bin": b"\xff"}))) as opened:
        members = {member.name: opened.extractfile(member).read() for member in opened}  # type: ignore[union-attr]
    assert members == {"a/b.bin": b"\xff"}


def test_new_and_changed_files_come_back_nested_and_binary() -> None:
    before = {"same": b"1", "changed": b"1", "removed": b"1"}
    data = bytes(range(256))
    found = collected(archive(("./same", b"1"), ("./changed", b"2"), ("./a/b/c.bin", data)), before, most=10)
    assert found.changed == {"changed": b"2", "a/b/c.bin": data}
    assert found.removed == ("removed",)
    assert found.left_out == ()


def test_only_plain_files_with_names_of_the_workspace_come_back() -> None:
    hostile = archive(
        ("../out", b"x"),
        ("/etc/passwd", b"x"),
        ("a/../../b", b"x"),
        ("link", "/etc/passwd"),
        ("bad\udcff".encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape"), b"x"),
        ("fine", b"x"),
    )
    found = collected(hostile, {}, most=10)
    assert found.changed == {"fine": b"x"}
    assert len(found.left_out) == 4


def test_no_more_files_than_are_kept() -> None:
    many = archive(*((f"./{number}", b"x") for number in range(20)))
    found = collected(many, {}, most=5)
    assert len(found.changed) == 5
    assert len(found.left_out) == 15


def test_a_name_that_stays_is_never_pushed_out_by_new_ones() -> None:
    many = archive(*((f"./{number}", b"x") for number in range(20)), ("./old", b"2"))
    assert collected(many, {"old": b"1"}, most=5).changed["old"] == b"2"


@pytest.mark.parametrize("data", [b"", b"no archive", archive(("a", b"x" * 5000))[:600]])
def test_what_is_no_archive_is_an_error(data: bytes) -> None:
    with pytest.raises((tarfile.TarError, OSError)):
        collected(data, {}, most=5)
