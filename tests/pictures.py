"""Make the README's pictures from a real run: `python -m tests.pictures` (after `make setup`).

The demo is played at a pseudo-terminal, its questions answered by the key `a`, and what stands on the screen
becomes docs/images/run.svg; the plot that the run left becomes docs/images/plot.png.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
TASK = "Add up the revenue in /data/sales.csv by month and plot it."
WIDTH = 118
MOST_OUTPUT = 7
"""Lines shown of one command's output."""

# Rich's own format fetches a font from elsewhere; a picture in a repository should stand alone.
FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
 font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder, "workspace")
        (workspace / "data").mkdir(parents=True)
        shutil.copy(ROOT / "workspace" / "data" / "sales.csv", workspace / "data")
        screen = _play(Path(folder), workspace)
        plot = next((workspace / "results").glob("*.png"))
        IMAGES.mkdir(exist_ok=True)
        shutil.copyfile(plot, IMAGES / "plot.png")
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(_shortened(Text.from_ansi(screen)), soft_wrap=False, overflow="ellipsis", no_wrap=True)
    svg = console.export_svg(title=f'code-agent run "{TASK}"', code_format=FORMAT, unique_id="run")
    (IMAGES / "run.svg").write_text(svg)


def _play(folder: Path, workspace: Path) -> str:
    """Everything the run has written to its terminal."""
    ours, theirs = pty.openpty()
    programs = Path(sys.executable).parent
    command = [str(programs / "code-agent"), "run", TASK]
    process = subprocess.Popen(
        [*command, "--model", f"scripted:{ROOT / 'agent' / 'demo.yaml'}"],
        cwd=folder,
        env={
            **os.environ,
            # Found there, the program calls itself by its name alone.
            "PATH": f"{programs}:{os.environ['PATH']}",
            "WORKSPACE_DIR": str(workspace),
            "COLUMNS": str(WIDTH),
            "TERM": "xterm-256color",
        },
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    screen = ""
    answered = 0
    while True:
        try:
            data = os.read(ours, 65_536)
        except OSError:  # the other end is closed: the program has ended
            break
        screen += data.decode("utf-8", "replace")
        if screen.count("leave it pending: ") > answered:
            answered += 1
            os.write(ours, b"a\n")
    os.close(ours)
    if process.wait() != 0:
        raise SystemExit(f"the run failed:\n{screen}")
    return screen.replace("\r\n", "\n")


def _shortened(text: Text) -> Text:
    """Without the middle of long outputs, and without the paths of this machine."""
    lines: list[Text] = []
    block = 0
    in_program = False
    for line in text.split("\n"):
        if in_program:
            in_program = line.plain.strip() != "PROGRAM"
            if in_program:
                continue
            lines.append(Text("…", style="dim"))
        in_program = "<<'PROGRAM'" in line.plain
        block = block + 1 if line.plain.lstrip().startswith("│") else 0
        if block == MOST_OUTPUT:
            lines.append(Text("  │ …", style="dim"))
        if block < MOST_OUTPUT:
            line.plain = re.sub(r"scripted:\S+/agent/", "scripted:agent/", line.plain)
            lines.append(line)
    return Text("\n").join(lines)


if __name__ == "__main__":
    main()
