"""The workspace over HTTP, as the page shows it: through the sandbox, bounded, never run, one owner's."""

from __future__ import annotations

import base64
import json
import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from langgraph_server import Server, langgraph_dev
from small_files import pdf, png

from agent.tokens import new_token

pytestmark = pytest.mark.docker

ALICE, ALICES = new_token("alice")
BOB, BOBS = new_token("bob")
SECRET = "sk-proj-canary-5f2b9c1d7e"
SCRIPT = """\
conversations:
- when: for all the thread
  replies:
  - tool_calls: [{name: execute, args: {command: "echo once"}}]
  - tool_calls: [{name: execute, args: {command: "echo once"}}]
  - text: That is done.
  - tool_calls: [{name: execute, args: {command: "echo once"}}]
- when: something long
  replies:
  - tool_calls: [{name: execute, args: {command: "sleep 30"}}]
"""
PAGE = "<!doctype html><script>fetch('/threads', {method: 'POST'})</script>"
SVG = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
BYTES = {"content-type": "application/octet-stream"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"AUTH_TOKENS": f"{ALICES},{BOBS}", "OPENAI_API_KEY": SECRET, "HTTP_MAX_BODY": "2m"}
    with langgraph_dev(tmp_path_factory.mktemp("files"), SCRIPT, **settings) as server:
        yield server


@pytest.fixture(scope="module")
def alice(server: Server) -> Iterator[httpx.Client]:
    with server.client(ALICE) as http:
        yield http


@pytest.fixture(scope="module")
def bob(server: Server) -> Iterator[httpx.Client]:
    with server.client(BOB) as http:
        yield http


def new_thread(http: httpx.Client) -> str:
    return str(http.post("/threads", json={}).raise_for_status().json()["thread_id"])


@pytest.fixture(scope="module")
def thread(alice: httpx.Client) -> str:
    """A thread of alice's; its sandbox has been started."""
    thread = new_thread(alice)
    alice.get(f"/files/{thread}/list").raise_for_status()
    return thread


@pytest.fixture(scope="module")
def workspace(server: Server, thread: str) -> Path:
    """The thread's workspace on this side: what is put here, an agent might have made."""
    return server.folder / "workspace" / "threads" / thread


@pytest.fixture
def get(alice: httpx.Client, thread: str) -> Any:
    """Asks for a part of the thread's files: `get("content", path="…", view="text")`."""

    def get(part: str, **query: Any) -> httpx.Response:
        return alice.get(f"/files/{thread}/{part}", params=query)

    return get


def put(http: httpx.Client, thread: str, path: str, content: bytes, **query: str) -> httpx.Response:
    return http.put(
        f"/files/{thread}/content", params={"path": path, **query}, content=content, headers=BYTES
    )


def entries(answer: httpx.Response) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in answer.raise_for_status().json()["entries"]}


def reading_is_refused(answer: httpx.Response, status: int) -> None:
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    assert len(answer.json()["error"]) > 20, "it says what to do"


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

    def test_a_folder_by_each_of_its_names(self, get: Any, workspace: Path) -> None:
        (workspace / "results" / "x.txt").write_text("x")
        for path in ("/results", "/workspace/results", "results", "/workspace/data/../results/"):
            told = get("list", path=path).json()
            assert (told["path"], list(entries(get("list", path=path)))) == ("/workspace/results", ["x.txt"])

    def test_names_of_any_kind(self, get: Any, workspace: Path) -> None:
        folder = workspace / "names"
        folder.mkdir()
        names = [
            "a\nb",
            "<img src=x onerror=alert(1)>",
            "é 日本",
            "\u202eexe.txt",
            "'\";&%$",
            "-rf",
            "~",
            " ",
        ]
        for name in names:
            (folder / name).write_text(name)
        (Path(os.fsdecode(os.fsencode(folder) + b"/bad\xff"))).write_text("x")
        found = entries(get("list", path="/workspace/names"))
        assert set(found) == {*names, "bad\ufffd"}
        assert found["bad\ufffd"]["kind"] == "other", "no request could name it"
        for name in names:
            got = get("content", path=f"/workspace/names/{name}")
            assert got.text == name, "its name names it"
            assert got.headers["content-disposition"].isascii()

    def test_links_and_what_is_no_file(self, get: Any, workspace: Path) -> None:
        folder = workspace / "kinds"
        folder.mkdir()
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

    def test_a_folder_of_100_000_files_is_bounded(self, get: Any, workspace: Path) -> None:
        folder = workspace / "many"
        folder.mkdir()
        for number in range(100_000):
            os.close(os.open(folder / f"{number:06}", os.O_CREAT))
        told = get("list", path="/workspace/many")
        assert told.json()["truncated"] is True
        assert len(told.json()["entries"]) == 2_000
        assert len(told.content) < 1 << 20


class TestContent:
    @pytest.mark.parametrize(("name", "content"), [("page.html", PAGE), ("picture.svg", SVG), ("x.js", "x")])
    def test_it_is_saved_and_never_shown_as_what_it_says_it_is(
        self, get: Any, workspace: Path, name: str, content: str
    ) -> None:
        (workspace / name).write_text(content)
        got = get("content", path=f"/workspace/{name}")
        assert got.text == content
        assert got.headers["content-type"] == "application/octet-stream"
        assert got.headers["content-disposition"] == f"attachment; filename*=UTF-8''{name}"
        text = get("content", path=f"/workspace/{name}", view="text")
        assert text.headers["content-type"] == "text/plain; charset=utf-8"
        reading_is_refused(get("content", path=f"/workspace/{name}", view="image"), 422)

    def test_no_answer_may_run_anything(self, get: Any, workspace: Path) -> None:
        (workspace / "page.html").write_text(PAGE)
        (workspace / "dot.png").write_bytes(png())
        (workspace / "one.pdf").write_bytes(pdf("one"))
        (workspace / "one.csv").write_text("a\n1\n")
        for part, query in [
            ("content", {"path": "page.html"}),
            ("content", {"path": "page.html", "view": "text"}),
            ("content", {"path": "dot.png", "view": "image"}),
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

    @pytest.mark.parametrize(
        ("content", "kind"),
        [
            (png(), "image/png"),
            (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
            (b"GIF89a" + PAGE.encode(), "image/gif"),
            (b"RIFF\x04\0\0\0WEBPrest", "image/webp"),
            (PAGE.encode(), None),
            (SVG.encode(), None),
            (b"<?xml version='1.0'?>" + SVG.encode(), None),
            (b"BM" + PAGE.encode(), None),
            (b"%PDF-1.4", None),
            (b"", None),
        ],
    )
    def test_a_picture_is_what_begins_like_one(
        self, get: Any, workspace: Path, content: bytes, kind: str | None
    ) -> None:
        (workspace / "named.png").write_bytes(content)
        got = get("content", path="named.png", view="image")
        if kind is None:
            reading_is_refused(got, 422)
        else:
            assert (got.content, got.headers["content-type"]) == (content, kind)

    def test_any_bytes_come_as_they_are(self, get: Any, workspace: Path) -> None:
        content = os.urandom(3_000_000)
        (workspace / "random.bin").write_bytes(content)
        assert get("content", path="random.bin").content == content

    def test_of_a_text_the_beginning(self, get: Any, workspace: Path) -> None:
        (workspace / "short.txt").write_text("ä" * 1000)
        (workspace / "long.txt").write_text("ä" * 1_000_000)
        (workspace / "binary.txt").write_bytes(b"a\0b")
        (workspace / "latin.txt").write_bytes("bärtig".encode("latin-1"))
        short = get("content", path="short.txt", view="text")
        assert (short.text, short.headers["x-truncated"]) == ("ä" * 1000, "0")
        long = get("content", path="long.txt", view="text")
        assert (long.text, long.headers["x-truncated"]) == ("ä" * 131_072, "1")
        assert get("content", path="latin.txt", view="text").text == "b\ufffdrtig"
        reading_is_refused(get("content", path="binary.txt", view="text"), 422)

    def test_a_huge_file_is_not_read(self, get: Any, workspace: Path) -> None:
        with (workspace / "huge").open("wb") as file:
            file.truncate(50 << 30)
        reading_is_refused(get("content", path="huge"), 413)
        assert get("content", path="huge", view="text").status_code == 422
        assert get("table", path="huge").status_code == 422
        reading_is_refused(get("pdf", path="huge"), 413)


class TestPaths:
    @pytest.mark.parametrize(
        ("path", "status"),
        [
            ("/etc/passwd", 404),
            ("../../etc/passwd", 404),
            ("/workspace/../etc/passwd", 404),
            ("/workspacex", 404),
            ("//etc/passwd", 404),
            ("/skills/web/SKILL.md", 404),
            ("/proc/self/environ", 404),
            ("/proc/1/mem", 404),
            ("/dev/zero", 404),
            ("/workspace/nowhere", 404),
            ("/workspace/page.html/x", 404),
            ("/workspace", 409),
            ("/", 404),
            ("a\0b", 400),
            ("", 400),
            ("x" * 5_000, 400),
            ("/workspace/" + "x" * 300, 400),
        ],
    )
    def test_what_is_not_in_the_workspace_is_not_there(
        self, get: Any, workspace: Path, path: str, status: int
    ) -> None:
        (workspace / "page.html").write_text(PAGE)
        reading_is_refused(get("content", path=path), status)
        assert get("content", path=path, view="text").status_code == status
        assert get("table", path=path).status_code == status

    @pytest.mark.parametrize(
        "target",
        ["/etc/passwd", "/etc", "/", "/proc/self", "../../../../etc", "/skills", "/dev/zero", "/tmp"],
    )
    def test_a_link_to_elsewhere_leads_nowhere(
        self, alice: httpx.Client, get: Any, thread: str, workspace: Path, target: str
    ) -> None:
        link = workspace / "link"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        for path in ("link", "link/passwd", "link/environ"):
            for part in ("content", "table", "pdf", "list"):
                got = get(part, path=path)
                assert got.status_code == 404, (part, path, got.text)
        for path in ("link", "link/made-here"):
            for replace in ("0", "1"):
                assert put(alice, thread, path, b"x", replace=replace).status_code in {403, 404, 409}
        assert link.is_symlink()
        link.unlink()

    @pytest.mark.parametrize("part", ["content", "table", "pdf"])
    def test_a_fifo_keeps_nobody_waiting(self, get: Any, workspace: Path, part: str) -> None:
        path = workspace / f"fifo-{part}"
        os.mkfifo(path)
        (workspace / f"link-{part}").symlink_to(path.name)
        began = time.monotonic()
        for name in (path.name, f"link-{part}"):
            reading_is_refused(get(part, path=name), 422)
        assert time.monotonic() - began < 10

    def test_a_link_that_changes_all_the_time_reaches_nothing_outside(
        self, get: Any, workspace: Path
    ) -> None:
        """Between any look and any reading it may lead elsewhere; what comes is the one file, or nothing."""
        (workspace / "mine.txt").write_text("mine")
        going = True

        def change() -> None:
            turn = workspace / "turning.new"
            while going:
                for target in ("mine.txt", "/etc/passwd"):
                    turn.symlink_to(target)
                    turn.rename(workspace / "turning")

        with ThreadPoolExecutor() as pool:
            changing = pool.submit(change)
            try:
                for _ in range(20):
                    for query in ({}, {"view": "text"}):
                        got = get("content", path="turning", **query)
                        assert got.text == "mine" or got.status_code == 404, got.text
            finally:
                going = False
            changing.result()


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

    @pytest.mark.parametrize(
        ("content", "columns", "rows"),
        [
            (b"", [], []),
            (b"\xef\xbb\xbfa,b\r\n1,2\r\n", ["a", "b"], [["1", "2"]]),
            (b"a\tb\n1\t2\n", ["a", "b"], [["1", "2"]]),
            (b'a,b\n"x\ny",\n', ["a", "b"], [["x\ny", ""]]),
            (b"a,b\n1\n1,2,3\n", ["a", "b"], [["1"], ["1", "2", "3"]]),
            (b"a\n\xff\n", ["a"], [["\ufffd"]]),
            (f"a\n{SVG}\n=cmd()\n".encode(), ["a"], [[SVG], ["=cmd()"]]),
            (b'a,b\n"never closed,1\n', ["a", "b"], [["never closed,1\n"]]),
        ],
    )
    def test_tables_as_they_come(
        self, get: Any, workspace: Path, content: bytes, columns: list[str], rows: list[list[str]]
    ) -> None:
        (workspace / "some.csv").write_bytes(content)
        told = get("table", path="some.csv").json()
        assert (told["columns"], told["rows"], told["total"]) == (columns, rows, len(rows))

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

    def test_a_line_without_end_and_a_binary(self, get: Any, workspace: Path) -> None:
        (workspace / "line.csv").write_bytes(b"a" * 50_000_000)
        assert get("table", path="line.csv").status_code == 200
        (workspace / "binary.csv").write_bytes(b"a,b\n\0,1\n")
        reading_is_refused(get("table", path="binary.csv"), 422)

    @pytest.mark.parametrize(
        "query",
        [
            {"offset": "-1"},
            {"limit": "0"},
            {"limit": "201"},
            {"offset": "x"},
            {"limit": "1.5"},
            {"offset": "٣"},
        ],
    )
    def test_rows_that_cannot_be(self, get: Any, query: dict[str, str]) -> None:
        reading_is_refused(get("table", path="some.csv", **query), 400)


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
        reading_is_refused(get("pdf", path="two.pdf", page=3), 422)
        reading_is_refused(get("pdf", path="two.pdf", page=0), 400)

    def test_a_page_of_kilometres_is_as_large_as_any(self, get: Any, workspace: Path) -> None:
        (workspace / "large.pdf").write_bytes(pdf("x", width=1_000_000, height=500_000))
        got = get("pdf", path="large.pdf")
        if got.status_code == 200:
            sides = [int.from_bytes(got.content[at : at + 4], "big") for at in (16, 20)]
            assert max(sides) <= 1_601
        else:
            reading_is_refused(got, 422)

    @pytest.mark.parametrize("content", [b"", b"%PDF-1.4\n", PAGE.encode(), os.urandom(10_000), pdf()])
    def test_what_is_none_is_said(self, get: Any, workspace: Path, content: bytes) -> None:
        (workspace / "none.pdf").write_bytes(content)
        reading_is_refused(get("pdf", path="none.pdf"), 422)


class TestUpload:
    def test_a_file_and_its_folders(
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
        reading_is_refused(put(alice, thread, "up/load/é.bin", b"other"), 409)
        assert put(alice, thread, "up/load/é.bin", b"", replace="1").json()["bytes"] == 0
        assert (workspace / "up/load/é.bin").read_bytes() == b""

    @pytest.mark.parametrize(
        ("path", "status"),
        [
            ("/workspace", 409),
            ("/workspace/scripts", 409),
            ("/etc/x", 404),
            ("../x", 404),
            ("/tmp/x", 404),
            ("a\nb", 400),
            ("x" * 300, 400),
            ("data/x", 403),
        ],
    )
    def test_where_none_can_be(self, alice: httpx.Client, thread: str, path: str, status: int) -> None:
        for replace in ("0", "1"):
            refused = put(alice, thread, path, b"x", replace=replace)
            # What is too long is found out by the file system alone.
            reading_is_refused(refused, refused.status_code if len(path) == 300 else status)
            assert 400 <= refused.status_code < 500

    def test_one_that_is_too_large(self, alice: httpx.Client, thread: str, workspace: Path) -> None:
        assert alice.get("/page/config").json()["upload_bytes"] == 2 << 20
        refused = put(alice, thread, "large", b"x" * ((2 << 20) + 1))
        reading_is_refused(refused, 413)
        assert not (workspace / "large").exists()

    def test_other_types_are_refused(self, alice: httpx.Client, thread: str, workspace: Path) -> None:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            refused = alice.put(
                f"/files/{thread}/content?path=typed", content=b"x", headers={"content-type": kind}
            )
            reading_is_refused(refused, 415)
        assert not (workspace / "typed").exists()


class TestSecrets:
    def test_none_leaves(self, get: Any, workspace: Path) -> None:
        (workspace / f"{SECRET}.txt").write_text("x")
        (workspace / "leak.csv").write_text(f"key,x\n{SECRET},{'y' * 990}{SECRET}\n")
        (workspace / "leak.bin").write_bytes(b"\0\xff" + SECRET.encode())
        padding = "z" * (262_144 - 10)
        (workspace / "edge.txt").write_text(padding + SECRET + "z" * 10_000)
        answers = [
            get("list"),
            get("content", path="leak.csv"),
            get("content", path="leak.csv", view="text"),
            get("content", path="leak.bin"),
            get("table", path="leak.csv"),
            get("content", path="edge.txt", view="text"),
        ]
        for each in answers:
            for piece in (SECRET, SECRET[:10], base64.b64encode(SECRET.encode()).decode()):
                assert piece not in each.text, (each.url, each.text[-300:])
        assert "[REDACTED]" in answers[4].text

    def test_none_comes_in(self, alice: httpx.Client, thread: str, workspace: Path) -> None:
        for content in (SECRET.encode(), b"\0\xff" + SECRET.encode()):
            reading_is_refused(put(alice, thread, "key.txt", content), 422)
        assert not (workspace / "key.txt").exists()


class TestOwners:
    @pytest.mark.parametrize("form", [str, lambda thread: thread.upper(), lambda thread: UUID(thread).hex])
    def test_what_is_anothers_is_not_there(
        self, bob: httpx.Client, alice: httpx.Client, thread: str, workspace: Path, form: Any
    ) -> None:
        (workspace / "mine.txt").write_text("mine")
        name = form(thread)
        assert alice.get(f"/files/{name}/content?path=mine.txt").text == "mine"
        for path in (
            f"/files/{name}/list",
            f"/files/{name}/content?path=mine.txt",
            f"/files/{name}/table?path=mine.txt",
            f"/files/{name}/pdf?path=mine.txt",
            f"/page/threads/{name}/grants",
        ):
            assert bob.get(path).status_code == 404, path
        reading_is_refused(put(bob, name, "bobs.txt", b"x"), 404)
        assert bob.delete(f"/page/threads/{name}/grants/x").status_code == 404
        assert not (workspace / "bobs.txt").exists()

    def test_a_thread_that_is_not_there_has_no_sandbox(self, server: Server, alice: httpx.Client) -> None:
        for name in (str(uuid4()), "nobodys", "..", "%2e%2e", "a%2fb"):
            assert alice.get(f"/files/{name}/list").status_code == 404
        assert not list((server.folder / "workspace" / "threads").glob("*nobodys*"))

    def test_without_a_token(self, server: Server, thread: str) -> None:
        with server.client() as nobody:
            for path in (f"/files/{thread}/list", f"/page/threads/{thread}/grants", "/page/config", "/app"):
                assert nobody.get(path).status_code == 401, path

    def test_one_threads_files_are_not_anothers(self, alice: httpx.Client, thread: str) -> None:
        other = new_thread(alice)
        assert put(alice, thread, "only-here.txt", b"x", replace="1").is_success
        assert "only-here.txt" not in entries(alice.get(f"/files/{other}/list"))
        assert alice.get(f"/files/{other}/content?path=only-here.txt").status_code == 404


class TestGrants:
    def test_they_are_shown_and_taken_back(self, alice: httpx.Client, bob: httpx.Client) -> None:
        """H5, by the routes of the page."""
        path = f"/threads/{new_thread(alice)}"
        ask = {
            "assistant_id": "deep_agent",
            "input": {"messages": [{"role": "user", "content": "for all the thread"}]},
        }
        alice.post(f"{path}/runs/wait", json=ask).raise_for_status()
        grants = f"/page{path}/grants"
        assert alice.get(grants).json() == {"grants": []}
        decision = {"type": "approve", "scope": "command"}
        answered = {"assistant_id": "deep_agent", "command": {"resume": {"decisions": [decision]}}}
        after = alice.post(f"{path}/runs/wait", json=answered).raise_for_status().json()
        [grant] = alice.get(grants).json()["grants"]
        assert grant["tool"] == "execute"
        assert "echo once" in grant["shown"]
        assert len(grant["digest"]) == 64
        assert bob.delete(f"{grants}/{grant['id']}").status_code == 404
        reading_is_refused(alice.delete(f"{grants}/none"), 404)
        assert alice.get(grants).json()["grants"] == [grant]
        assert alice.delete(f"{grants}/{grant['id']}").json() == {"grants": []}
        assert alice.get(grants).json() == {"grants": []}
        assert len([step for step in after["messages"] if step["type"] == "tool"]) == 2, "the second was not"
        again = alice.post(f"{path}/runs/wait", json=ask).json()
        assert "__interrupt__" in again, "it is asked about again"

    def test_while_the_thread_is_at_work_they_stay(self, alice: httpx.Client) -> None:
        thread = new_thread(alice)
        ask = {
            "assistant_id": "deep_agent",
            "input": {"messages": [{"role": "user", "content": "something long"}]},
        }
        alice.post(f"/threads/{thread}/runs/wait", json=ask).raise_for_status()
        approve = {"resume": {"decisions": [{"type": "approve", "scope": "tool"}]}}
        run = alice.post(
            f"/threads/{thread}/runs", json={"assistant_id": "deep_agent", "command": approve}
        ).json()
        deadline = time.monotonic() + 30
        while not (held := alice.get(f"/page/threads/{thread}/grants").json()["grants"]):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        reading_is_refused(alice.delete(f"/page/threads/{thread}/grants/{held[0]['id']}"), 409)
        alice.post(f"/threads/{thread}/runs/{run['run_id']}/cancel?wait=1")
        assert alice.delete(f"/page/threads/{thread}/grants/{held[0]['id']}").json() == {"grants": []}


class TestSandbox:
    def test_what_it_answers_is_not_believed(self, get: Any, workspace: Path) -> None:
        """A file says what it likes: that is text, never an answer of the server."""
        (workspace / "answer.txt").write_text(json.dumps({"error": "ENOENT"}) + "\n")
        assert get("content", path="answer.txt", view="text").text.startswith('{"error"')

    def test_nothing_is_left_behind_in_it(self, alice: httpx.Client, get: Any, thread: str) -> None:
        for _ in range(3):
            get("list").raise_for_status()
        answer = alice.post("/run", json={"input": "x"})
        assert answer.status_code in {200, 202, 500}
        assert not [name for name in entries(get("list")) if name.startswith(".page")]
