"""The files of threads that are in no folder of this machine, over HTTP: two servers with one store."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from agent.secrets import KNOWN
from libs.backends.docker.sandbox_makers import SandboxMakers
from libs.redaction import SecretFilter
from tests.integration.files.calls import entries, is_refused
from tests.support.sandboxes import IMAGE
from tests.support.small_files import pdf, png
from tests.support.workspaces.empty_starts import EmptyContainer, EmptyContainers
from tests.support.workspaces.file_servers import FileServer, file_server

pytestmark = pytest.mark.docker

KEY = "sk-known-to-this-server-0123456789"
WRITES_KEY = f"printf 'a,b\\n1,%s%s\\n' {KEY[:9]} {KEY[9:]} > results/rows.csv"


@pytest.fixture
async def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[FileServer]]:
    def threads(makers: SandboxMakers, *_: object) -> EmptyContainers:
        return EmptyContainers(makers, tmp_path / f"machine-{os.urandom(4).hex()}")

    monkeypatch.setattr(SandboxMakers, "threads", threads)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(KNOWN, "_known", SecretFilter({"OPENAI_API_KEY": KEY}))  # read once in a process
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workspace" / "data").mkdir(parents=True)
    (tmp_path / "workspace" / "data" / "common.csv").write_text("a\n7\n")
    settings = {"sandbox_cluster": "auto", "sandbox_scope": "thread", "sandbox_image": IMAGE}
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(file_server(**settings)) for _ in range(2)]


def starts(server: FileServer) -> int:
    assert isinstance(server.sandbox, EmptyContainer)
    return server.sandbox.starts


async def test_files_are_read_where_no_sandbox_of_the_thread_runs(servers: list[FileServer]) -> None:
    first, second = servers
    for path, content in {
        "results/dot.png": png(),
        "results/two.pdf": pdf("first", "second"),
        "notes/long.txt": "ä".encode() * 200_000,
        "binary": b"a\0b",
    }.items():
        assert (await first.put(path, content)).status_code == 200
    await first.sandbox.arun("ln -s ../results notes/link; ln -s /tmp notes/out; ln -s loop notes/loop")
    await first.sandbox.arun(WRITES_KEY)
    await first.sandbox.aclose()

    for server in servers:
        top = entries(await server.get("list"))
        assert list(top) == ["data", "notes", "results", "scripts", "binary"]
        assert (top["binary"]["kind"], top["binary"]["bytes"]) == ("file", 3)
        assert {
            name: each["leads_to"] for name, each in entries(await server.get("list", path="notes")).items()
        } == {
            "link": "folder",
            "long.txt": None,
            "loop": None,
            "out": None,
        }
        assert list(entries(await server.get("list", path="notes/link"))) == [
            "dot.png",
            "rows.csv",
            "two.pdf",
        ]
        assert (await server.get("content", path="/results/dot.png", view="image")).content == png()
        assert (await server.get("content", path="binary")).content == b"a\0b"
        long = await server.get("content", path="notes/long.txt", view="text")
        assert (long.text, long.headers["x-truncated"]) == ("ä" * 131_072, "1")
        assert (await server.get("content", path="results/rows.csv")).text == "a,b\n1,[REDACTED]\n"
        for path, status in {
            "none": 404,
            "notes/out/x": 404,
            "notes/loop": 404,
            "../x": 404,
            "results": 409,
        }.items():
            is_refused(await server.get("content", path=path), status)
        is_refused(await server.get("content", path="binary", view="text"), 422)
        is_refused(await server.get("list", path="binary"), 404)
        is_refused(await server.get("list", path="none"), 404)
    assert (starts(first), starts(second)) == (1, 0)


@pytest.mark.thorough
async def test_previews_are_made_in_a_sandbox_without_the_thread(servers: list[FileServer]) -> None:
    first, second = servers
    await first.put("results/two.pdf", pdf("first", "second"))
    await first.sandbox.arun(WRITES_KEY)
    await first.put("other", b"")  # keeps what the command has written, too
    table = (await second.get("table", path="results/rows.csv")).json()
    assert (table["columns"], table["rows"], table["total"]) == (["a", "b"], [["1", "[REDACTED]"]], 1)
    page = await second.get("pdf", path="/results/two.pdf", page=2)
    assert (page.headers["x-page-count"], page.content[:4]) == ("2", b"\x89PNG")
    is_refused(await second.get("table", path="none"), 404)
    assert list(entries(await second.get("list", path="data"))) == ["common.csv"]
    assert (await second.get("content", path="/data/common.csv")).text == "a\n7\n"
    assert (await second.get("content", path="/data/common.csv", view="text")).text == "a\n7\n"
    assert (await second.get("table", path="/data/common.csv")).json()["rows"] == [["7"]]
    assert starts(second) == 0
    assert first.sandbox.running, "the first server still has the thread"


async def test_upload_is_kept_before_it_is_answered(servers: list[FileServer]) -> None:
    first, second = servers
    assert (await first.put("a", b"1")).status_code == 200
    assert (await second.get("content", path="a")).content == b"1"
    assert (await second.put("a", b"2", replace="1")).status_code == 200
    assert (await first.get("content", path="a")).content == b"2", "its own sandbox is stale"
    assert not first.sandbox.running
    assert (await first.put("b", b"3")).status_code == 200
    assert (await second.put("c", b"4")).status_code == 200, "a stale sandbox is replaced"
    assert second.sandbox.run("cat a b c").output == "234"


async def test_upload_whose_sandbox_ends_before_it_is_kept_is_refused(
    servers: list[FileServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = servers
    await first.put("a", b"1")
    keep = first.sandbox.keep
    assert keep is not None

    async def late() -> None:
        monkeypatch.setattr(first.sandbox, "keep", None)  # as for a sandbox that has died
        await first.sandbox.aclose()
        await keep()

    monkeypatch.setattr(first.sandbox, "keep", late)
    is_refused(await first.put("b", b"2"), 503)
    assert "b" not in entries(await second.get("list"))
