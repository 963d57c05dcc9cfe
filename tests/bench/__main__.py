"""Take every figure in one run: `make bench`, or `python -m tests.bench PART …` for parts of it.

The parts: commands, files, life, request, tokens.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from libs.backends.docker import DockerExecutionBackend
from tests.bench import commands, files, life, request, tokens
from tests.bench.measure import Figure

REPORT = Path(__file__).parents[1] / "artifacts" / "bench.json"


def _figures(parts: set[str], root: Path) -> Iterator[Figure]:
    if parts & {"commands", "files"}:
        with DockerExecutionBackend(root, name="bench") as backend:
            if "commands" in parts:
                yield from commands.figures(backend)
            if "files" in parts:
                yield from files.figures(backend)
    if "life" in parts:
        yield from life.figures(root)
    if "request" in parts:
        yield from request.figures(root)
    if "tokens" in parts:
        yield from tokens.figures()


def main() -> None:
    parts = set(sys.argv[1:]) or {"commands", "files", "life", "request", "tokens"}
    console = Console(width=150 if not sys.stdout.isatty() else None)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    table = Table(title=f"Figures, median (5th to 95th percentile): {machine}")
    for column in ("what", "measured", "limit", "holds"):
        table.add_column(column, overflow="fold")
    taken: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder, console.status("measuring") as status:
        for figure in _figures(parts, Path(folder)):
            taken.append(figure)
            status.update(figure.name)
            table.add_row(figure.name, _measured(figure), figure.limit, "yes" if figure.holds else "NO")
    console.print(table)
    REPORT.parent.mkdir(exist_ok=True)
    report = {
        "taken": datetime.now(UTC).isoformat(),
        "machine": machine,
        "figures": [figure.as_json() for figure in taken],
    }
    REPORT.write_text(json.dumps(report, indent=1))
    console.print(
        f"As JSON: {REPORT.relative_to(Path.cwd()) if REPORT.is_relative_to(Path.cwd()) else REPORT}"
    )


def _measured(figure: Figure) -> str:
    lines = []
    for name, value in figure.values.items():
        spread = figure.spread.get(name)
        among = f" ({spread[0]:.2f} to {spread[1]:.2f})" if spread else ""
        lines.append(f"{name} {value:,.2f}{among} {figure.unit}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
