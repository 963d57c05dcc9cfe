"""The file tools on small files, and upload and download of a large file."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from deepagents.backends import FilesystemBackend
from deepagents.backends.protocol import BackendProtocol

from libs.backends.docker import DockerExecutionBackend
from tests.bench.measure import Figure, interleaved, memory_grown
from tests.bench.peers import Peers

MEGABYTES = 50
LIMITS = {"read": 2, "write": 2, "edit": 2, "ls": 2, "glob": 2, "grep": 4}
"""Milliseconds."""
_FILL = "mkdir -p {0}; for i in $(seq 20); do seq 100 > {0}/$i.txt; done; echo line one > {0}/edit.txt"
_IN_PEERS = "/tmp/small"


def figures(backend: DockerExecutionBackend, peers: Peers) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _small(Path(folder), backend, peers)
        yield from _large(Path(folder), backend, peers)


def _small(root: Path, backend: DockerExecutionBackend, peers: Peers) -> Iterator[Figure]:
    backend.execute(_FILL.format("/workspace/small"))
    host = FilesystemBackend(root_dir=root, virtual_mode=True)
    for number in range(1, 21):
        host.write(f"/small/{number}.txt", "".join(f"{line}\n" for line in range(1, 101)))
    host.write("/small/edit.txt", "line one\n")
    ours, bound = _tools(backend, "/workspace/small"), _tools(host, "/small")
    theirs = _peer_tools(peers)
    for name, limit in LIMITS.items():
        times = interleaved(
            {"host, in process": bound[name], "sandbox": ours[name]}, reporting=theirs[name], rounds=100
        )
        held = times.median("sandbox") * 1000 <= limit
        yield times.figure(f"{name} of a small file", f"at most {limit} ms", held)


def _tools(backend: BackendProtocol, folder: str) -> dict[str, Callable[[], object]]:
    number = itertools.count()
    turn = itertools.cycle([("one", "two"), ("two", "one")])

    def right(result: object) -> None:
        assert getattr(result, "error", None) is None, result

    return {
        "read": lambda: right(backend.read(f"{folder}/1.txt")),
        "write": lambda: right(backend.write(f"{folder}-new/{next(number)}.txt", "hello\n")),
        "edit": lambda: right(backend.edit(f"{folder}/edit.txt", *next(turn))),
        "ls": lambda: right(backend.ls(folder)),
        "glob": lambda: right(backend.glob("*.txt", folder)),
        "grep": lambda: right(backend.grep("77", folder)),
    }


def _peer_tools(peers: Peers) -> dict[str, dict[str, Callable[[], float]]]:
    peers.reporting("run", f"bash -c '{_FILL.format(_IN_PEERS)}'")
    return {
        # Peers without a deepagents backend can only read and write whole files.
        "read": peers.reporting("read", f"{_IN_PEERS}/1.txt") | peers.reporting("page", f"{_IN_PEERS}/1.txt"),
        "write": peers.reporting("write", f"{_IN_PEERS}/new.txt", 6),
        "edit": peers.reporting("edit", f"{_IN_PEERS}/edit.txt"),
        "ls": peers.reporting("ls", _IN_PEERS),
        "glob": peers.reporting("glob", "*.txt", _IN_PEERS),
        "grep": peers.reporting("grep", "77", _IN_PEERS),
    }


def _large(root: Path, backend: DockerExecutionBackend, peers: Peers) -> Iterator[Figure]:
    content = b"x" * (MEGABYTES * 1_000_000)
    on_host = root / "large.bin"

    def up() -> None:
        assert backend.upload_files([("/workspace/large.bin", content)])[0].error is None

    def down() -> None:
        assert backend.download_files(["/workspace/large.bin"])[0].content == content

    bounds: dict[str, Callable[[], object]] = {
        "up": lambda: on_host.write_bytes(content),
        "down": on_host.read_bytes,
    }
    for name, ours in {"up": up, "down": down}.items():
        theirs = (
            peers.reporting("write", "/tmp/large.bin", len(content))
            if name == "up"
            else peers.reporting("read", "/tmp/large.bin")
        )
        times = interleaved(
            {"host, in process": bounds[name], "sandbox": ours},
            reporting=theirs,
            rounds=5,
            warm_up=1,
        )
        rates = {key: MEGABYTES / times.median(key) for key in times.samples}
        spread = {
            key: (MEGABYTES / times.percentile(key, 95), MEGABYTES / times.percentile(key, 5))
            for key in times.samples
        }
        held = rates["sandbox"] >= 100
        yield Figure(f"{MEGABYTES} MB {name}", "MB/s", rates, "at least 100 MB/s", held, spread)
        grown, most = memory_grown(ours), 2.2 * MEGABYTES if name == "down" else 0.2 * MEGABYTES
        yield Figure(
            f"host memory over idle, {MEGABYTES} MB {name}",
            "MB",
            {"sandbox": grown},
            f"at most {most:.0f} MB" + (", as it comes and whole" if name == "down" else ""),
            grown <= most,
        )
