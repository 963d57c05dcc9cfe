"""Finds the paths in a task, and those of them that do not exist."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agent.code_graph import _absent
from agent.listing import absent, is_input, named_paths
from libs.sandbox import SandboxLimits
from libs.sandbox.host.local_sandbox import LocalSandbox


@pytest.mark.parametrize(
    ("task", "paths"),
    [
        ("What is the mean age in /data/people.csv?", ["/data/people.csv"]),
        ("(see /data/a.csv,/data/b.csv; or data/c.csv).", ["/data/a.csv", "/data/b.csv", "data/c.csv"]),
        ("`/results/out.csv` from “/data/my file.csv”!", ["/results/out.csv", "/data/my file.csv"]),
        ('Compare "/data/a.csv and /data/b.csv".', ["/data/a.csv", "/data/b.csv"]),
        ("请分析/data/people.csv的平均年龄。", ["/data/people.csv"]),
        ("/data/people.csvの平均", ["/data/people.csv"]),
        ("/data/2024/ and /data/2024/ again", ["/data/2024/"]),
        ("/data/*.csv, /data/sales_*.csv, /results/plot-<n>.png, /data/${name}.csv", []),
        ("https://x.org/data/x.csv C:/data/x.csv ftp://x.org/a/b.csv x/y/z.csv", []),
        ("the folders /data and /data/, the data/model split, /etc/passwd, 1/2, and/or.x, /3.5", []),
        ("~/z.csv? /home/me/x.csv, ~/a/b.csv", ["~/z.csv", "/home/me/x.csv", "~/a/b.csv"]),
        ("workspace/data/x.csv results/y.md", ["workspace/data/x.csv", "results/y.md"]),
        ("**/data/x.csv** and *data/y.csv*.", ["/data/x.csv", "data/y.csv"]),
        ("file:///data/z.csv ./scripts/z.py", ["/data/z.csv", "./scripts/z.py"]),
        ("nul /data/a\x00b", ["/data/a"]),
    ],
)
def test_paths_of_a_task(task: str, paths: list[str]) -> None:
    assert [each.path for each in named_paths(task)] == paths


def test_input_is_below_data() -> None:
    paths = "/data/a.csv", "data/a.csv", "./data/a.csv", "/workspace/data/a.csv", "./workspace/data/a.csv"
    assert all(map(is_input, paths))
    assert not any(map(is_input, ("/results/a.png", "results/data/a.png", "~/data/a.csv", "/tmp/data/x")))


def test_at_most_twenty_paths() -> None:
    assert len(named_paths(" ".join(f"/data/{n}" for n in range(30)))) == 20


@pytest.mark.parametrize("name", ["/data/a.csv ", "“/data/a.csv "])
def test_long_task_takes_no_noticeable_time(name: str) -> None:
    task = name * 80_000
    begun = time.process_time()
    named_paths(task)
    assert time.process_time() - begun < 2  # 0.3 s; with a copy of the task for each path, 10 s


async def test_absent_paths_are_those_that_do_not_exist(tmp_path: Path) -> None:
    # The local sandbox has no /data: the file system of this machine stands in below /tmp.
    place = Path("/tmp") / f"named-{tmp_path.name}-{id(tmp_path)}"
    (place / "folder").mkdir(parents=True)
    try:
        for name in ("there.csv", "two words.csv", "表.csv"):
            (place / name).touch()
        (place / "dangling").symlink_to("nowhere")
        task = (
            f"{place}/there.csv, {place}/two words.csv {place}/folder/ {place}/表.csv的和 {place}/there.csvx "
            f"{place}/people.csv {place}/there.csv/below {place}/no/x.csv {place}/dangling "
            f"{place}/{'n' * 300}"
        )
        with LocalSandbox(tmp_path / "workspace") as sandbox:
            found = await absent(sandbox, named_paths(task))
            assert await absent(sandbox, []) == []
        expected = ["there.csvx", "people.csv", "there.csv/below", "no/x.csv", "dangling"]
        assert found == [f"{place}/{name}" for name in expected]
    finally:
        for path in place.iterdir():
            path.rmdir() if path.is_dir() else path.unlink()
        place.rmdir()


async def test_absent_paths_may_be_longer_than_the_output_of_a_command(tmp_path: Path) -> None:
    paths = [f"/data/{n}-{'x' * 100}.csv" for n in range(20)]
    limits = SandboxLimits(output_chars=1_000)
    with LocalSandbox(tmp_path, limits=limits) as sandbox:
        assert await absent(sandbox, named_paths(" ".join(paths))) == paths


async def test_only_paths_of_files_in_results_are_missed_in_an_answer(tmp_path: Path) -> None:
    said = " ".join(f"/data/{number}.csv" for number in range(20))
    said += " 結果は/results/a.csvです。 See https://x.org/results/b.html, /results/*.csv, /results/%Y.csv"
    said += " and (/results/c.md)."
    with LocalSandbox(tmp_path) as sandbox:
        assert await _absent(sandbox, said) == ["/results/a.csv", "/results/c.md"]
