"""The first and the last part of an output are kept, and the whole is on disk."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libs.sandbox import SandboxDied, SandboxLimits
from libs.sandbox.guest.workers.capture import Captured
from libs.sandbox.guest.workers.output_limit import Output
from libs.sandbox.guest.workers.spill import make_room
from libs.sandbox.host import failed_result, shortened
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.sandbox.host.requests import Call, received
from libs.sandbox.wire.frames import Decoder, Fd, Kind
from tests.support.programs import finished

TEXT = st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))
CHUNKS = st.lists(st.one_of(TEXT, st.binary(max_size=200)), max_size=30)


def collect(chunks: list[bytes], limit: int, path: Path) -> tuple[Output, bytes, bytes, int]:
    """Feed chunks like a worker, which takes the first half at once."""
    output = Output(limit, str(path))
    head = b"".join(chunk[: output.add(chunk)] for chunk in chunks)
    tail = output.finish()
    return output, head, tail, output.chars


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CHUNKS, st.one_of(st.integers(10, 60), st.integers(10, 400)))
def test_first_and_last_part_are_kept_and_the_whole_is_on_disk(
    tmp_path: Path, chunks: list[bytes], limit: int
) -> None:
    path = tmp_path / os.urandom(8).hex()
    whole = b"".join(chunks)
    text = whole.decode("utf-8", "replace")
    output, head, tail, chars = collect(chunks, limit, path)
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert chars == len(text)  # as shown: invalid bytes count, too
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


def test_memory_holds_only_the_two_halves(tmp_path: Path) -> None:
    grown = finished(f"""
        import resource
        from libs.sandbox.guest.workers.output_limit import Output
        output = Output(50_000, {str(tmp_path / "spill")!r})
        block = bytes(65_536)
        output.add(block); output.add(block); output.add(block); output.add(block)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(3_000):
            output.add(block)
        output.finish()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """)
    assert int(grown) < 2_048


def test_long_output_without_a_file_keeps_both_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    output = Output(1_000, None)
    head = b"".join(piece[: output.add(piece)] for piece in [b"a" * 50_000, b"b" * 50_000])
    tail = output.finish()
    assert (output.spill_path, output.spilled, output.chars) == (None, 0, 100_000)
    assert (head, tail) == (b"a" * 2_000, b"b" * 2_000)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("trap", ["fifo", "link"])
def test_trap_in_the_place_of_the_file_is_not_touched(tmp_path: Path, trap: str) -> None:
    """`test_long_output.py` has traps in the place of the folder."""
    path, elsewhere = tmp_path / "spill", tmp_path / "elsewhere"
    if trap == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(elsewhere)
    output, head, tail, chars = collect([b"x" * 100_000], 1_000, path)
    assert output.spill_path is None
    assert (chars, len(head), len(tail)) == (100_000, 2_000, 2_000)
    assert not elsewhere.exists()


def test_full_disk_ends_the_file_and_not_the_output(tmp_path: Path) -> None:
    """A file size limit stands for a full disk. The report has the written size."""
    told = finished(f"""
        import resource
        from libs.sandbox.guest.workers.output_limit import Output
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
        output = Output(1_000, {str(tmp_path / "spill")!r})
        for _ in range(100):
            output.add(b"x" * 30_000)
        print(len(output.finish()), output.chars, output.total, output.spilled)
    """)
    assert told == "2000 3000000 3000000 1000000\n"


@pytest.mark.parametrize("change", ["rm -rf {0}", "mv {0} {0}.old", ": > {0}/spill", "echo >> {0}/spill"])
def test_spill_file_that_a_program_removes_or_changes_is_not_named_as_whole(
    tmp_path: Path, change: str
) -> None:
    path = tmp_path / "output" / "spill"
    output = Output(1_000, str(path))
    output.add(b"x" * 100_000)
    subprocess.run(["bash", "-c", change.format(path.parent)], check=True)
    output.add(b"x")
    output.finish()
    assert (output.spill_path, output.spilled) == (str(path), 0)


def test_removed_spill_file_is_told(tmp_path: Path) -> None:
    with LocalSandbox(tmp_path) as sandbox:
        result = sandbox.run("seq 200000; rm -rf .output; sleep .2; echo end")
        assert "but that file was removed or changed meanwhile" in result.output
        assert (result.truncated, result.spill_path) == (True, None)
        kept = sandbox.run("seq 200000; rm -rf .output/none; sleep .2; echo end")
        assert kept.spill_path
        assert f"the whole output is in {kept.spill_path}" in kept.output


def test_what_was_printed_before_the_end_of_the_sandbox_is_told(tmp_path: Path) -> None:
    with LocalSandbox(tmp_path, limits=SandboxLimits(output_chars=1_000)) as sandbox:

        def end(_: bytes) -> None:
            assert sandbox.process
            sandbox.process.kill()

        with pytest.raises(SandboxDied) as command:
            sandbox.run("echo begun; sleep 20", on_output=end, merge_stderr=False)
        with pytest.raises(SandboxDied) as block:
            sandbox.run_python("import time; print('b' * 9_000); time.sleep(20)", session="a", on_output=end)
    assert failed_result(command.value).output == f"begun\n\n{command.value} {command.value.hint}"
    assert block.value.output.startswith("b" * 500)
    assert len(block.value.output) < 1_200


def test_gap_in_live_output_is_marked() -> None:
    captured = Captured(Fd.OUT, 1_000, None)
    captured.add(b"a" * 2_000 + b"b" * 100_000, live=True)
    first = captured.frames(1)
    while not captured.live:  # until the time of the limit is over
        captured.add(b"c", live=True)
    captured.add(b"d", live=True)
    shown = [(kind, payload) for _, kind, payload, _ in Decoder().feed(first + captured.frames(1))]
    assert shown == [
        (Kind.DATA, b"a" * 2_000),
        (Kind.LIVE, b"b" * 64 * 1024),
        (Kind.LIVE, b""),
        (Kind.LIVE, b"cd"),
    ]


@pytest.mark.parametrize("limit", [100, 900, 1_990, 2_010, 2_046])
@pytest.mark.parametrize("ends", [("", ""), ("[a new sandbox]\n", ""), ("", "\n[timed out after 2 s]")])
def test_output_that_is_cut_again_keeps_the_line_of_the_first_cut(limit: int, ends: tuple[str, str]) -> None:
    line = "\n[… 7,000 characters left out; it was kept …]\n"
    text = f"{ends[0]}{'a' * 1_000}{line}{'b' * 1_000}{ends[1]}"
    once = shortened(text, limit)
    assert line in once
    for cut in (once, shortened(once, 60)):
        counts = re.findall(r"\[… ([0-9,]+) characters left out", cut)
        shown = re.sub(r"\n\[… .* …\]", "", cut)
        assert (
            len(shown) + sum(int(each.replace(",", "")) for each in counts) == len(text) - len(line) + 7_001
        )


class TestRoom:
    """`make_room` removes the oldest spill files only. `test_long_output.py` tests the order."""

    def test_other_files_are_not_removed(self, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("spills", [True, False])
def test_line_about_a_rest_that_did_not_come_is_last_and_names_only_a_file_that_may_be_there(
    *, spills: bool
) -> None:
    limits = SandboxLimits(output_chars=1_000)
    call = Call(1, b"", None)
    call.data[Fd.OUT] += b"x" * 1_999
    call.data[Fd.ERR] += b"y" * 600
    assert "did not come" not in received(limits, call, spills)
    call.data[Fd.OUT] += b"x"
    where = "; a very long output may be in a file in .output" if spills else ""
    assert received(limits, call, spills).endswith(f"y\n[… the rest of this output did not come{where} …]\n")
