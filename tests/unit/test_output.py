"""The first and the last part of an output are kept, all of it is counted, the whole is on disk (S5)."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libs.sandbox.output import Output
from libs.sandbox.spill import SPILL_LIMIT, make_room, spill_name

TEXT = st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))
CHUNKS = st.lists(st.one_of(TEXT, st.binary(max_size=200)), max_size=30)


def collect(chunks: list[bytes], limit: int, path: Path) -> tuple[Output, bytes, bytes, int]:
    """Feed chunks as a worker does: the parts of the first half are taken as they come."""
    output = Output(limit, str(path))
    head = b"".join(chunk[: output.add(chunk)] for chunk in chunks)
    tail = output.finish()
    return output, head, tail, output.chars


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CHUNKS, st.integers(10, 400))
def test_what_is_kept_is_the_beginning_and_the_end(tmp_path: Path, chunks: list[bytes], limit: int) -> None:
    path = tmp_path / os.urandom(8).hex()
    whole = b"".join(chunks)
    text = whole.decode("utf-8", "replace")
    output, head, tail, chars = collect(chunks, limit, path)
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert (chars > limit) == (len(text) > limit)
    half = limit // 2
    if chars <= limit:
        assert head + tail == whole
        assert output.spill_path is None
        assert not path.exists()
    else:
        assert path.read_bytes() == whole
        assert output.spilled == len(whole)
        assert output.spill_path == str(path)
        assert head.decode("utf-8", "replace")[:half] == text[:half]
        assert tail.decode("utf-8", "replace")[-half:] == text[-half:] or head + tail == whole


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CHUNKS, st.integers(10, 60))
def test_characters_are_counted_as_they_would_be_shown(
    tmp_path: Path, chunks: list[bytes], limit: int
) -> None:
    """Bytes that are no UTF-8 included: each is shown, so each counts."""
    *_, chars = collect(chunks, limit, tmp_path / os.urandom(8).hex())
    assert chars == len(b"".join(chunks).decode("utf-8", "replace"))


@pytest.mark.parametrize("size", [1, 7, 4096, 65_536, 10_000_000])
def test_the_size_of_the_chunks_changes_nothing(tmp_path: Path, size: int) -> None:
    whole = ("aü€😀" * 100_000).encode()
    chunks = [whole[start : start + size] for start in range(0, len(whole), size)][: 10**6]
    output, head, tail, chars = collect(chunks, 1_000, tmp_path / "spill")
    assert (chars, len(head), len(tail)) == (400_000, 2_000, 2_000)
    assert (tmp_path / "spill").read_bytes() == whole
    assert output.spilled == len(whole)


def test_the_file_ends_at_its_limit(tmp_path: Path) -> None:
    block = b"x" * 3_000_001
    count = SPILL_LIMIT // len(block) + 2
    output, _, _, chars = collect([block] * count, 1_000, tmp_path / "spill")
    assert chars == len(block) * count
    assert output.spilled == (tmp_path / "spill").stat().st_size == SPILL_LIMIT


def test_memory_holds_the_two_halves_only(tmp_path: Path) -> None:
    script = textwrap.dedent(f"""
        import resource
        from libs.sandbox.output import Output
        output = Output(50_000, {str(tmp_path / "spill")!r})
        block = bytes(65_536)
        output.add(block); output.add(block); output.add(block); output.add(block)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(3_000):
            output.add(block)
        output.finish()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=root, check=True
    )
    assert int(done.stdout) < 2_048


@pytest.mark.parametrize("trap", ["fifo", "file", "link", "folder", "parent is a file", "parent is a loop"])
def test_a_trap_under_the_name_is_not_touched(tmp_path: Path, trap: str) -> None:
    parent = tmp_path / "out"
    path = parent / "spill"
    elsewhere = tmp_path / "elsewhere"
    if trap == "parent is a file":
        parent.write_text("kept")
    elif trap == "parent is a loop":
        parent.symlink_to(parent)
    else:
        parent.mkdir()
        {
            "fifo": lambda: os.mkfifo(path),
            "file": lambda: path.write_text("kept"),
            "link": lambda: path.symlink_to(elsewhere),
            "folder": path.mkdir,
        }[trap]()
    output, head, tail, chars = collect([b"x" * 100_000], 1_000, path)
    assert output.spill_path is None
    assert (chars, len(head), len(tail)) == (100_000, 2_000, 2_000)
    assert not elsewhere.exists()
    if trap == "file":
        assert path.read_text() == "kept"


def test_a_disk_that_is_full_ends_the_file_not_the_output(tmp_path: Path) -> None:
    """Here the limit of a file's size; what is written is told, so that nobody calls it the whole."""
    script = textwrap.dedent(f"""
        import resource
        from libs.sandbox.output import Output
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
        output = Output(1_000, {str(tmp_path / "spill")!r})
        for _ in range(100):
            output.add(b"x" * 30_000)
        print(len(output.finish()), output.chars, output.total, output.spilled)
    """)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=root, check=True
    )
    assert done.stdout == "2000 3000000 3000000 1000000\n"


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for index in range(50):
        collect([b"x" * 10_000], 1_000, tmp_path / str(index))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > before


def test_others_on_the_host_cannot_write_to_it(tmp_path: Path) -> None:
    collect([b"x" * 10_000], 1_000, tmp_path / "spill")
    assert (tmp_path / "spill").stat().st_mode & 0o022 == 0


class TestRoom:
    """The oldest go where all of them would take too much; nothing else that lies there does."""

    def fill(self, folder: Path) -> list[Path]:
        """Five outputs of a megabyte each, the oldest first."""
        made = [folder / f"2025010{day}-120000-00000{9 - day}.txt" for day in range(1, 5)]
        made.append(folder / f"{spill_name()}.stderr.txt")
        for path in made:
            path.write_bytes(bytes(2**20))
        return made

    def test_the_oldest_go(self, tmp_path: Path) -> None:
        made = self.fill(tmp_path)
        make_room(tmp_path.as_posix(), SPILL_LIMIT + 3 * 2**20)
        assert sorted(tmp_path.iterdir()) == sorted(made[2:])

    def test_with_room_all_stay(self, tmp_path: Path) -> None:
        made = self.fill(tmp_path)
        make_room(tmp_path.as_posix(), SPILL_LIMIT + 5 * 2**20)
        make_room(tmp_path.as_posix())
        assert sorted(tmp_path.iterdir()) == sorted(made)

    def test_what_is_something_else_stays(self, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.write_bytes(bytes(2**20))
        folder = tmp_path / "folder"
        folder.mkdir()
        for name in (
            "notes.txt",
            "20250101-120000-00000.txt",
            "20250101-120000-000000.csv",
            "conversation.md",
        ):
            (folder / name).write_bytes(bytes(2**20))
        (folder / "20250101-120000-000000.txt").symlink_to(outside)
        (folder / "20250101-120000-000001.txt").mkdir()
        before = sorted(folder.iterdir())
        make_room(folder.as_posix(), 0)
        assert sorted(folder.iterdir()) == before
        assert outside.exists()

    def test_a_folder_that_is_a_link_is_left_alone(self, tmp_path: Path) -> None:
        folder = tmp_path / "folder"
        folder.mkdir()
        made = self.fill(folder)
        (tmp_path / "link").symlink_to(folder)
        with pytest.raises(OSError, match=r"."):
            make_room((tmp_path / "link").as_posix(), 0)
        assert sorted(folder.iterdir()) == sorted(made)
