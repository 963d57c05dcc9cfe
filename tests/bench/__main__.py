"""Measure all figures in one run: `make bench`, or some parts: `python -m tests.bench PART …`.

The parts: commands, blocks, files, life, crowd, programs, tokens, server_tokens, workspace, forks, approvals,
questions, servers; and cluster, which needs Ray (`make cluster`) and root.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from libs.backends.docker import DockerExecutionBackend
from tests.bench import (
    bench_approvals,
    bench_blocks,
    bench_cluster,
    bench_commands,
    bench_crowd,
    bench_files,
    bench_forks,
    bench_life,
    bench_programs,
    bench_workspace,
)
from tests.bench.agents import bench_questions, bench_server_tokens, bench_servers, bench_tokens
from tests.bench.bench_sandboxes import image, runtime
from tests.bench.measure import REPORT, Figure
from tests.bench.peers import Peers

Part = Callable[[Path, Peers], Iterator[Figure]]


def _in_one_sandbox(figures: Callable[[DockerExecutionBackend, Peers], Iterator[Figure]]) -> Part:
    def part(root: Path, peers: Peers) -> Iterator[Figure]:
        peers.open()
        with DockerExecutionBackend(root, name="bench", image=image(), runtime=runtime()) as backend:
            yield from figures(backend, peers)

    return part


PARTS: dict[str, Part] = {
    "commands": _in_one_sandbox(bench_commands.figures),
    "blocks": _in_one_sandbox(bench_blocks.figures),
    "files": _in_one_sandbox(bench_files.figures),
    "life": bench_life.figures,
    "crowd": lambda root, _: bench_crowd.figures(root),
    "programs": lambda root, _: bench_programs.figures(root),
    "tokens": lambda _, __: bench_tokens.figures(),
    "server_tokens": lambda root, _: bench_server_tokens.figures(root),
    "workspace": lambda root, _: bench_workspace.figures(root),
    "forks": lambda root, _: bench_forks.figures(root),
    "approvals": lambda root, _: bench_approvals.figures(root),
    "questions": lambda root, _: bench_questions.figures(root),
    "servers": lambda root, _: bench_servers.figures(root),
    "cluster": lambda root, _: bench_cluster.figures(root),
}
WITH_PEERS = {"commands", "blocks", "files", "life"}


def main() -> None:
    parts = sys.argv[1:] or list(PARTS)
    if unknown := set(parts) - PARTS.keys():
        sys.exit(f"no such part: {', '.join(sorted(unknown))}. There are {', '.join(PARTS)}.")
    console = Console(width=150 if not sys.stdout.isatty() else None)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    table = Table(title=f"Figures, median (5th to 95th percentile): {machine}")
    for column in ("what", "measured", "limit", "holds"):
        table.add_column(column, overflow="fold")
    taken: list[Figure] = []
    failed: list[str] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        console.status("installing the peers") as status,
        Peers(image(), None if WITH_PEERS.intersection(parts) else []) as peers,
    ):
        for part in parts:
            try:
                for figure in PARTS[part](Path(folder, part), peers):
                    taken.append(figure)
                    status.update(figure.name)
                    what = figure.name + (f": {figure.note}" if figure.note else "")
                    table.add_row(what, _measured(figure), figure.limit, "yes" if figure.holds else "NO")
            except Exception:  # noqa: BLE001 - the other parts are still measured
                failed.append(part)
                console.print_exception()
    console.print(table)
    for peer, reason in peers.left_out.items():
        console.print(f"left out: {peer}: {reason}", markup=False)
    REPORT.parent.mkdir(exist_ok=True)
    report = {
        "taken": datetime.now(UTC).isoformat(),
        "machine": machine,
        "figures": [figure.as_json() for figure in taken],
        "left_out": peers.left_out,
    }
    REPORT.write_text(json.dumps(report, indent=1))
    console.print(f"As JSON: {REPORT}")
    if failed:
        sys.exit(f"Not measured, for the errors above: {', '.join(failed)}.")


def _measured(figure: Figure) -> str:
    lines = []
    for name, value in figure.values.items():
        spread = figure.spread.get(name)
        among = f" ({spread[0]:,.2f} to {spread[1]:,.2f})" if spread else ""
        lines.append(f"{name} {value:,.2f}{among} {figure.unit}".rstrip())
    return "\n".join(lines)


if __name__ == "__main__":
    main()
