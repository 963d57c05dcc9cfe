"""The files of a thread over HTTP: read in the sandbox, bounded, never executed."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.files.calls import PAGE, SVG, entries, is_refused, put
from tests.support.small_files import pdf, png

pytestmark = pytest.mark.docker

OWNED = {"HTTP_MAX_BODY": "2m"}
SCRIPT = "conversations: []"


class TestListing:
    def test_folders_first_by_name(self, get: Any, workspace: Path) -> None:
        (workspace / "zeta").mkdir()
        (workspace / "alpha.txt").write_text("12345")
        (workspace / ".hidden").write_text("")
        told = get("list").json()
        assert told["path"] == "/workspace"
        assert told["truncated"] is False
        names = [each["name"] for each in told["entries"]]
        folders = [name for name in names if entries(get("list"))[name]["kind"] == "folder"]
        assert names == [*folders, ".hidden", "alpha.txt"]
        assert {"data", "results", "scripts", "zeta"} <= set(folders)
        alpha = entries(get("list"))["alpha.txt"]
        assert (alpha["kind"], alpha["bytes"], alpha["leads_to"]) == ("file", 5, None)
        assert abs(alpha["modified"] - time.time()) < 60

    def test_unusual_names_are_listed_and_served(self, get: Any, workspace: Path) -> None:
        folder = workspace / "names"
        folder.mkdir()
        names = ["a\nb", "<img src=x onerror=alert(1)>", "é 日本", "\u202eexe.txt", "'\";&%$", "-rf", " "]
        for name in names:
            (folder / name).write_text(name)
        (Path(os.fsdecode(os.fsencode(folder) + b"/bad\xff"))).write_text("x")
        found = entries(get("list", path="/workspace/names"))
        assert set(found) == {*names, "bad\\xff"}
        assert found["bad\\xff"]["kind"] == "other", "no request can name this file"
        for name in names:
            got = get("content", path=f"/workspace/names/{name}")
            assert got.text == name, "the name finds its file"
            assert got.headers["content-disposition"].isascii()

    def test_links_and_special_files_are_listed_with_their_kind(self, get: Any, workspace: Path) -> None:
        folder = workspace / "kinds"
        folder.mkdir()
        (workspace / "results" / "x.txt").write_text("x")
        (folder / "to-file").symlink_to("../results/x.txt")
        (folder / "to-folder").symlink_to("/workspace/results")
        (folder / "to-nowhere").symlink_to("nowhere")
        (folder / "in-a-circle").symlink_to("in-a-circle")
        os.mkfifo(folder / "fifo")
        with socket.socket(socket.AF_UNIX) as made:
            here = os.open(folder, os.O_RDONLY)
            made.bind(f"/proc/self/fd/{here}/socket")
            os.close(here)
        found = entries(get("list", path="/workspace/kinds"))
        assert {name: (each["kind"], each["leads_to"]) for name, each in found.items()} == {
            "to-folder": ("link", "folder"),
            "to-file": ("link", "file"),
            "to-nowhere": ("link", None),
            "in-a-circle": ("link", None),
            "fifo": ("other", None),
            "socket": ("other", None),
        }
        assert next(iter(found)) == "to-folder"

    def test_entries_of_a_folder_that_cannot_be_entered_are_listed(self, get: Any, workspace: Path) -> None:
        (workspace / "no-entry").mkdir()
        (workspace / "no-entry" / "file").write_text("x")
        (workspace / "no-entry").chmod(0o444)
        found = entries(get("list", path="/workspace/no-entry"))
        (workspace / "no-entry").chmod(0o755)
        assert {name: (each["kind"], each["bytes"]) for name, each in found.items()} == {"file": ("other", 0)}

    @pytest.mark.parametrize("count", [3_000, pytest.param(100_000, marks=pytest.mark.thorough)])
    def test_large_folder_is_bounded(self, get: Any, workspace: Path, count: int) -> None:
        folder = workspace / f"many-{count}"
        folder.mkdir()
        for number in range(count):
            os.close(os.open(folder / f"{number:06}", os.O_CREAT))
        told = get("list", path=folder.name)
        assert told.json()["truncated"] is True
        assert len(told.json()["entries"]) == 2_000
        assert len(told.content) < 1 << 20


class TestContent:
    @pytest.mark.parametrize(("name", "content"), [("page.html", PAGE), ("picture.svg", SVG)])
    def test_file_is_downloaded_and_never_rendered(
        self, get: Any, workspace: Path, name: str, content: str
    ) -> None:
        (workspace / name).write_text(content)
        got = get("content", path=f"/workspace/{name}")
        assert got.text == content
        assert got.headers["content-type"] == "application/octet-stream"
        assert got.headers["content-disposition"] == f"attachment; filename*=UTF-8''{name}"
        text = get("content", path=f"/workspace/{name}", view="text")
        assert text.headers["content-type"] == "text/plain; charset=utf-8"
        image = get("content", path=f"/workspace/{name}", view="image")
        if content == SVG:  # a picture in a page, and saved by its address
            assert image.headers["content-type"] == "image/svg+xml"
            assert image.headers["content-disposition"] == f"attachment; filename*=UTF-8''{name}"
        else:
            is_refused(image, 422)

    def test_headers_forbid_scripts(self, get: Any, workspace: Path) -> None:
        (workspace / "page.html").write_text(PAGE)
        (workspace / "dot.png").write_bytes(png())
        (workspace / "drawing.svg").write_text(SVG)
        (workspace / "one.pdf").write_bytes(pdf("one"))
        (workspace / "one.csv").write_text("a\n1\n")
        for part, query in [
            ("content", {"path": "page.html"}),
            ("content", {"path": "page.html", "view": "text"}),
            ("content", {"path": "dot.png", "view": "image"}),
            ("content", {"path": "drawing.svg", "view": "image"}),
            ("pdf", {"path": "one.pdf"}),
            ("table", {"path": "one.csv"}),
            ("list", {}),
        ]:
            headers = get(part, **query).raise_for_status().headers
            assert headers["content-security-policy"] == "sandbox; default-src 'none'", part
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert "no-store" in headers["cache-control"]
            assert part in {"table", "list"} or headers["content-disposition"].startswith("attachment;")

    def test_picture_is_recognised_by_its_first_bytes(self, get: Any, workspace: Path) -> None:
        contents: list[tuple[bytes, str | None]] = [
            (png(), "image/png"),
            (b"GIF89a" + PAGE.encode(), "image/gif"),
            (PAGE.encode(), None),
            (SVG.encode(), "image/svg+xml"),
            (f"<?xml version='1.0'?>\n<!DOCTYPE svg><!-- drawn -->\n{SVG}".encode(), "image/svg+xml"),
            (f"<!-- {SVG} -->{PAGE}".encode(), None),
            (b"<!---->" * 1_000, None),
            (b"", None),
        ]
        for content, kind in contents:
            (workspace / "named.png").write_bytes(content)
            got = get("content", path="named.png", view="image")
            if kind is None:
                is_refused(got, 422)
            else:
                assert (got.content, got.headers["content-type"]) == (content, kind)

    def test_text_preview_is_cut(self, get: Any, workspace: Path) -> None:
        (workspace / "short.txt").write_text("ä" * 1000)
        (workspace / "long.txt").write_text("ä" * 1_000_000)
        (workspace / "binary.txt").write_bytes(b"a\0b")
        (workspace / "latin.txt").write_bytes("bärtig".encode("latin-1"))
        short = get("content", path="short.txt", view="text")
        assert (short.text, short.headers["x-truncated"]) == ("ä" * 1000, "0")
        long = get("content", path="long.txt", view="text")
        assert (long.text, long.headers["x-truncated"]) == ("ä" * 131_072, "1")
        assert get("content", path="latin.txt", view="text").text == "b\ufffdrtig"
        is_refused(get("content", path="binary.txt", view="text"), 422)

    def test_huge_file_is_not_read(self, get: Any, workspace: Path) -> None:
        with (workspace / "huge").open("wb") as file:
            file.truncate(50 << 30)
        is_refused(get("content", path="huge"), 413)
        assert get("content", path="huge", view="text").status_code == 422
        assert get("table", path="huge").status_code == 422
        is_refused(get("pdf", path="huge"), 413)


class TestTables:
    def test_rows_of_a_table(self, get: Any, workspace: Path) -> None:
        lines = ["name;amount", *(f'"n;{n}";{n}' for n in range(1, 1001))]
        (workspace / "semicolons.csv").write_text("\n".join(lines))
        told = get("table", path="semicolons.csv", offset=990, limit=5).json()
        assert told["columns"] == ["name", "amount"]
        assert told["rows"] == [[f"n;{n}", str(n)] for n in range(991, 996)]
        assert (told["offset"], told["total"], told["cut"]) == (990, 1000, False)
        assert len(get("table", path="semicolons.csv").json()["rows"]) == 100
        assert get("table", path="semicolons.csv", offset=1000).json()["rows"] == []

    def test_tables_of_many_formats(self, get: Any, workspace: Path) -> None:
        tables: list[tuple[bytes, list[str], list[list[str]]]] = [
            (b"", [], []),
            (b'a,b\n"x\ny",\n', ["a", "b"], [["x\ny", ""]]),
            (b"a,b\n1\n1,2,3\n", ["a", "b"], [["1"], ["1", "2", "3"]]),
            ("a;b\n1;2\n".encode("utf-16"), ["a", "b"], [["1", "2"]]),
            (f"a\n{SVG}\n=cmd()\n".encode(), ["a"], [[SVG], ["=cmd()"]]),
        ]
        for content, columns, rows in tables:
            (workspace / "some.csv").write_bytes(content)
            told = get("table", path="some.csv").json()
            assert (told["columns"], told["rows"], told["total"]) == (columns, rows, len(rows))

    @pytest.mark.thorough
    def test_wide_and_long_is_bounded(self, get: Any, workspace: Path) -> None:
        row = ",".join("x" * 3000 for _ in range(500))
        (workspace / "wide.csv").write_text("\n".join([row] * 300))
        got = get("table", path="wide.csv", limit=200)
        told = got.json()
        assert told["cut"] is True
        assert len(told["columns"]) == 200
        assert 0 < len(told["rows"]) < 200
        assert {len(cell) for cell in told["rows"][0]} == {1001}
        assert len(got.content) < 8 << 20


class TestPdf:
    def test_each_page_is_a_picture(self, get: Any, workspace: Path) -> None:
        (workspace / "two.pdf").write_bytes(pdf("first", "second"))
        pictures = []
        for number in (1, 2):
            got = get("pdf", path="two.pdf", page=number)
            assert got.status_code == 200, got.text
            assert got.headers["content-type"] == "image/png"
            assert got.headers["x-page-count"] == "2"
            assert got.content.startswith(b"\x89PNG")
            pictures.append(got.content)
        assert pictures[0] != pictures[1]
        width, height = (int.from_bytes(pictures[0][at : at + 4], "big") for at in (16, 20))
        assert (width, height) == (800, 400)
        is_refused(get("pdf", path="two.pdf", page=3), 422)
        is_refused(get("pdf", path="two.pdf", page=0), 400)

    def test_error_of_a_damaged_file_is_one_sentence(self, get: Any, workspace: Path) -> None:
        (workspace / "damaged.pdf").write_bytes(b"%PDF-1.4 damaged")
        got = get("pdf", path="damaged.pdf")
        is_refused(got, 422)
        assert got.json()["error"].endswith("error).")

    def test_picture_of_a_huge_page_is_bounded(self, get: Any, workspace: Path) -> None:
        (workspace / "large.pdf").write_bytes(pdf("x", width=1_000_000, height=500_000))
        got = get("pdf", path="large.pdf")
        if got.status_code == 200:
            sides = [int.from_bytes(got.content[at : at + 4], "big") for at in (16, 20)]
            assert max(sides) <= 1_601
        else:
            is_refused(got, 422)


class TestUpload:
    def test_upload_creates_a_file_and_its_folders(
        self, alice: httpx.Client, thread: str, workspace: Path, get: Any
    ) -> None:
        content = os.urandom(100_000)
        done = put(alice, thread, "up/load/é.bin", content)
        assert (done.status_code, done.json()) == (
            200,
            {"path": "/workspace/up/load/é.bin", "bytes": 100_000},
        )
        assert (workspace / "up/load/é.bin").read_bytes() == content
        assert get("content", path="up/load/é.bin").content == content
        is_refused(put(alice, thread, "up/load/é.bin", b"other"), 409)
        assert put(alice, thread, "up/load/é.bin", b"", replace="1").json()["bytes"] == 0
        assert (workspace / "up/load/é.bin").read_bytes() == b""

    def test_upload_to_a_wrong_path_is_refused(self, alice: httpx.Client, thread: str) -> None:
        for path, status in [
            ("/workspace", 409),
            ("/workspace/scripts", 409),
            ("/etc/x", 404),
            ("../x", 404),
            ("a\nb", 400),
            ("data/x", 403),
        ]:
            for replace in ("0", "1"):
                is_refused(put(alice, thread, path, b"x", replace=replace), status)
        for path in ("/etc/x", "../x", "/new/dir/x", "/skills/x"):
            refused = put(alice, thread, path, b"x")
            assert (refused.status_code, "cannot be written" in refused.json()["error"]) == (404, True)
        for replace in ("0", "1"):  # only the file system detects a name that is too long
            assert 400 <= put(alice, thread, "x" * 300, b"x", replace=replace).status_code < 500

    def test_upload_over_the_limit_is_refused(
        self, alice: httpx.Client, thread: str, workspace: Path
    ) -> None:
        refused = put(alice, thread, "large", b"x" * ((2 << 20) + 1))
        is_refused(refused, 413)
        assert not (workspace / "large").exists()


def test_page_gets_the_settings_of_the_server(alice: httpx.Client) -> None:
    told = alice.get("/page/config").raise_for_status().json()
    assert {each["id"] for each in told["agents"]} == {"deep_agent", "code_agent", "exec_agent"}
    assert all(each["name"] and each["about"] for each in told["agents"])
    assert (told["default_agent"], told["model"]) == ("deep_agent", "scripted:script.yaml")
    assert (told["calls_tools"], told["approvals"], told["sandbox_scope"]) == (True, "ask", "thread")
    assert (told["owner"], told["upload_bytes"]) == ("alice", 2 << 20)
