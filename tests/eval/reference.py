"""Plain Python in a temporary folder, for reference solutions: no container, the standard library only."""

from __future__ import annotations

import contextlib
import csv
import datetime
import io
import json
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

from tests.eval.data import pdf
from tests.eval.task import Outcome, Task, Unsolved

__all__ = ["play", "write_files"]


def write_files(task: Task, folder: Path) -> None:
    """Put the files of a task into the folder that is /data."""
    for name, content in task.files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def play(task: Task, code: str, folder: Path) -> Outcome:
    """Run `code` as a solution of the task, in a fresh folder."""
    data, results = folder / "data", folder / "results"
    data.mkdir(parents=True)
    results.mkdir()
    write_files(task, data)

    def rows(name: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO((data / name).read_text())))

    names = {
        **{"DATA": data, "RESULTS": results, "rows": rows, "csv": csv, "json": json, "datetime": datetime},
        **{"draw_bars": draw_bars, "draw_dots": draw_dots, "draw_line": draw_line, "make_pdf": make_pdf},
    }
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, task.name, "exec"), names)
    return Outcome(printed.getvalue(), PlainPython(results))


class PlainPython:
    """See `tests.eval.task.Machine`. Runs what a reference solution wrote, never what a model wrote."""

    def __init__(self, results: Path) -> None:
        self._results = results

    def file(self, name: str) -> bytes:
        try:
            return (self._results / name).read_bytes()
        except OSError as error:
            raise Unsolved(f"/results/{name} is missing; there is {', '.join(self.names('.'))}") from error

    def names(self, folder: str) -> list[str]:
        place = self._results / folder
        return sorted(path.name for path in place.iterdir()) if place.is_dir() else []

    def program(self, name: str, *arguments: str, stdin: str = "") -> str:
        command = [sys.executable, str(self._results / name), *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)
        return done.stdout

    def pdf_text(self, name: str) -> str:
        text = (self._results / name).read_bytes().decode("latin-1")
        return "\n".join(re.findall(r"\(([^()]*)\) Tj", text))


def make_pdf(path: Path, pages: Sequence[Sequence[str]]) -> None:
    path.write_bytes(pdf(pages))


def draw_bars(
    path: Path,
    values: Sequence[float],
    *,
    size: tuple[int, int] = (640, 480),
    colour: tuple[int, int, int] = (255, 0, 0),
) -> None:
    """A PNG with a bar for each value."""
    width, height = size
    slot = width // len(values)
    heights = [round(value / max(values) * (height - 20)) for value in values]

    def pixel(left: int, top: int) -> bytes:
        bar = left // slot
        inside = bar < len(values) and slot // 4 < left % slot < slot * 3 // 4
        return bytes(colour) if inside and height - top <= heights[bar] else b"\xff\xff\xff"

    _write_png(path, [b"".join(pixel(left, top) for left in range(width)) for top in range(height)])


def draw_line(path: Path, values: Sequence[float]) -> None:
    """A PNG with one red line through the values, 20 pixels apart."""
    tops = []
    for at in range(20 * (len(values) - 1) + 1):
        left, part = divmod(at, 20)
        value = values[left] + (values[min(left + 1, len(values) - 1)] - values[left]) * part / 20
        tops.append(240 - round(200 * value / max(values)))
    lines = [
        b"".join(b"\xff\x00\x00" if abs(top - own) <= 1 else b"\xff\xff\xff" for own in tops)
        for top in range(260)
    ]
    _write_png(path, lines)


def draw_dots(path: Path, points: Sequence[tuple[float, float]]) -> None:
    """A PNG with a red dot for each point, its axes from zero."""
    right, high = (max(point[axis] for point in points) for axis in (0, 1))
    places = [(round(10 + 600 * x / right), round(410 - 400 * y / high)) for x, y in points]
    red = {(x + at, y + down) for x, y in places for at in range(-3, 4) for down in range(-3, 4)}
    lines = [
        b"".join(b"\xff\x00\x00" if (at, top) in red else b"\xff\xff\xff" for at in range(620))
        for top in range(420)
    ]
    _write_png(path, lines)


def _write_png(path: Path, lines: Sequence[bytes]) -> None:
    """A PNG of RGB lines."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", len(lines[0]) // 3, len(lines), 8, 2, 0, 0, 0)
    data = zlib.compress(b"".join(b"\x00" + line for line in lines))
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )
