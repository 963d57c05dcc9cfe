"""Take every figure in one run: `make bench`, or `python -m tests.bench PART …` for parts of it.

The parts: commands, blocks, files, life, crowd, programs, redaction, gateway, imports, request, tokens,
server.
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
from tests.bench import (
    blocks,
    commands,
    crowd,
    files,
    gateway,
    imports,
    life,
    programs,
    redaction,
    request,
    server,
    tokens,
)
from tests.bench.measure import REPORT, Figure
from tests.bench.peers import Peers
from tests.bench.sandboxes import image

PARTS = (
    *("commands", "blocks", "files", "life", "crowd", "programs"),
    *("redaction", "gateway", "imports", "request", "tokens", "server"),
)
WITH_PEERS = {"commands", "blocks", "files", "life"}


def _figures(part: str, root: Path, peers: Peers) -> Iterator[Figure]:
    if part in {"commands", "blocks", "files"}:
        peers.open()
        with DockerExecutionBackend(root / part, name="bench", image=image()) as backend:
            if part == "commands":
                yield from commands.figures(backend, peers)
            elif part == "blocks":
                yield from blocks.figures(backend, peers)
            else:
                yield from files.figures(root, backend, peers)
    elif part == "life":
        yield from life.figures(root, peers)
    elif part == "crowd":
        yield from crowd.figures(root / "crowd")
    elif part == "programs":
        yield from programs.figures(root / "programs")
    elif part == "redaction":
        yield from redaction.figures(root / "redaction")
    elif part == "gateway":
        yield from gateway.figures(root / "gateway")
    elif part == "imports":
        yield from imports.figures()
    elif part == "request":
        yield from request.figures(root)
    elif part == "tokens":
        yield from tokens.figures()
    elif part == "server":
        yield from server.figures(root / "server")


def main() -> None:
    parts = set(sys.argv[1:]) or set(PARTS)
    if unknown := parts - set(PARTS):
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
        Peers(image(), None if parts & WITH_PEERS else []) as peers,
    ):
        for part in [part for part in PARTS if part in parts]:
            try:
                for figure in _figures(part, Path(folder), peers):
                    taken.append(figure)
                    status.update(figure.name)
                    what = figure.name + (f": {figure.note}" if figure.note else "")
                    table.add_row(what, _measured(figure), figure.limit, "yes" if figure.holds else "NO")
            except Exception:  # noqa: BLE001 - the figures of the other parts are not lost with it
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
    console.print(
        f"As JSON: {REPORT.relative_to(Path.cwd()) if REPORT.is_relative_to(Path.cwd()) else REPORT}"
    )
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
