"""Run reference solutions in a temporary folder, without a container."""

from __future__ import annotations

import contextlib
import csv
import datetime
import io
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from tests.eval.data import pdf
from tests.eval.machine import Machine
from tests.eval.task import Outcome, Task

__all__ = ["in_folder", "play", "write_files"]


def write_files(task: Task, folder: Path) -> None:
    """Write the files of a task into the folder for /data."""
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
        **{
            "draw_bars": draw_bars,
            "draw_line": draw_line,
            "make_pdf": lambda path, pages: path.write_bytes(pdf(pages)),
        },
    }
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, task.name, "exec"), names)
    return Outcome(printed.getvalue(), in_folder(results))


def in_folder(results: Path) -> Machine:
    """Read results here. Only for reference solutions, never for a model's files."""

    def shell(command: str) -> str:
        return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60).stdout

    return _InFolder(str(results), shell, lambda path: Path(path).read_bytes())


class _InFolder(Machine):
    def pdf_text(self, name: str) -> str:
        """Read the text without a library."""
        return "\n".join(re.findall(r"\(([^()]*)\) Tj", self.file(name).decode("latin-1")))


def draw_bars(path: Path, values: Sequence[float], *, colour: tuple[int, int, int] = (255, 0, 0)) -> None:
    """Write a PNG file with a bar for each value."""
    slot = 640 // len(values)
    picture = Image.new("RGB", (640, 480), "white")
    for number, value in enumerate(values):
        left, top = number * slot, 480 - round(value / max(values) * 460)
        ImageDraw.Draw(picture).rectangle((left + slot // 4, top, left + slot * 3 // 4, 480), colour)
    picture.save(path)


def draw_line(path: Path, values: Sequence[float]) -> None:
    """Write a PNG file with one red line through the values, 20 pixels apart."""
    points = [(20 * at, 240 - round(200 * value / max(values))) for at, value in enumerate(values)]
    picture = Image.new("RGB", (20 * len(values), 500), "white")
    ImageDraw.Draw(picture).line(points, "#ff0000", 3)
    picture.save(path)
