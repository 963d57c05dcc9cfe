"""Reading the archive of a workspace, including forged archives."""

from __future__ import annotations

import io
import tarfile
import tracemalloc

import pytest

from libs.exec_tool.file_archives import MOST_BYTES, collected


def archive(*members: tuple[str, bytes | str]) -> bytes:
    """Pack a workspace as tar does. A text value is the target of a link."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.GNU_FORMAT) as opened:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                opened.addfile(info, io.BytesIO(content))
            else:
                info.type, info.linkname = tarfile.SYMTYPE, content
                opened.addfile(info)
    return written.getvalue()


def test_new_and_changed_files_come_back() -> None:
    before = {"same": b"1", "changed": b"1", "removed": b"1"}
    data = bytes(range(256))
    found = collected(archive(("./same", b"1"), ("./changed", b"2"), ("./a/b/c.bin", data)), before, most=10)
    assert found.changed == {"changed": b"2", "a/b/c.bin": data}
    assert found.removed == ("removed",)
    assert found.left_out == ()


def test_only_regular_files_with_valid_names_come_back() -> None:
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
    assert [name.split(" (")[1] for name in found.left_out] == [
        *["a name that cannot be kept)"] * 3,
        "a link, FIFO or device)",
        "a name that cannot be kept)",
    ]


def test_files_over_the_limit_are_left_out() -> None:
    many = archive(*((f"./{number}", b"x") for number in range(20)), ("./old", b"2"))
    found = collected(many, {"old": b"1"}, most=5)
    assert (len(found.changed), found.changed["old"], len(found.left_out)) == (5, b"2", 16)


def test_files_whose_content_is_not_known_are_named() -> None:
    before = {"closed": b"1", "shut/in": b"1", "gone": b"1", "link": b"1", "same": b"1", "more": b"1"}
    found = collected(
        archive(("./same", b"1"), ("./link", "same"), ("./more", b"2")),
        before,
        most=10,
        unread={"closed": "Cannot open: x", "shut": "Cannot open: x"},
    )
    assert (found.changed, found.removed) == ({"more": b"2"}, ("gone", "link"))
    assert found.stale == ("closed", "shut/in")


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """Return the header of a member with any size."""
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def sparse() -> bytes:
    """Return a sparse file of GNU tar that claims 64 GB."""
    block = bytearray(header("a", 0, tarfile.GNUTYPE_SPARSE))
    block[386:410] = b"%011o\0%011o\0" % (0, 0)
    block[483:495] = b"\x80" + (64 << 30).to_bytes(11, "big")
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + bytes(1024)


def sparse_of_pax() -> bytes:
    """Return the same in PAX format."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as opened:
        info = tarfile.TarInfo("a")
        info.pax_headers = {"GNU.sparse.size": str(64 << 30), "GNU.sparse.map": "0,0"}
        opened.addfile(info)
    return written.getvalue()


NAME = "././@LongLink"
FORGED = {
    "a negative size": header("a", 0) + header("b", -1024) + bytes(1024),
    "a size that leads back to itself": header("a", -512) + bytes(1024),
    "more than there is": header("a", 64 << 30) + bytes(1024),
    "a name of a negative size": header(NAME, -512, tarfile.GNUTYPE_LONGNAME) + bytes(1024),
    "a name as large as all memory": header(NAME, 1 << 70, tarfile.GNUTYPE_LONGNAME) + bytes(1024),
    "no end": header("a", 0),
    "nothing": b"",
    "too much": bytes(MOST_BYTES + 1),
    "a file within a file": archive(("a", b"1"), ("a/b", b"1")),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", FORGED)
def test_forged_archive_is_an_error(name: str) -> None:
    with pytest.raises(tarfile.TarError):
        collected(FORGED[name], {}, most=5)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "forged",
    [
        sparse(),
        sparse_of_pax(),
        (header(NAME, 1, tarfile.GNUTYPE_LONGNAME) + bytes(512)) * 5_000 + bytes(1024),
    ],
    ids=["sparse", "sparse of pax", "headers within headers"],
)
def test_claimed_sizes_take_no_memory(forged: bytes) -> None:
    tracemalloc.start()
    try:
        found = collected(forged, {}, most=5)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert all(content == b"" for content in found.changed.values())


def test_long_names_come_back() -> None:
    name = "/".join(["x" * 100] * 4)
    assert collected(archive((f"./{name}", b"1"), ("./b", b"2")), {}, most=5).changed == {
        name: b"1",
        "b": b"2",
    }
