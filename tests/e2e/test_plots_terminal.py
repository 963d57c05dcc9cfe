"""Plots at terminals that say they are kitty, iTerm2, one with sixel, one without, or nothing at all."""

from __future__ import annotations

import base64
import re
import struct
import zlib

import pytest
from cli_program import Program, execute
from screen_terminal import ScreenTerminal

pytestmark = pytest.mark.docker

# Left half red, right half blue, 40 times 20.
DRAW = (
    "python3 -c \"from PIL import Image; i = Image.new('RGB', (40, 20), (255, 0, 0)); "
    "i.paste((0, 0, 255), (20, 0, 40, 20)); i.save('/results/plot.png')\""
)
ROW = b"\xff\0\0" * 20 + b"\0\0\xff" * 20


def drawn(program: Program, says: str, command: str = DRAW, **options: str) -> ScreenTerminal:
    """A conversation in which a plot was made; it has ended."""
    program.script(execute(command), "Here it is.")
    terminal = ScreenTerminal(program, ["chat", "--approve", "auto"], says, **options)
    terminal.send("go")
    terminal.wait_for("Here it is.")
    terminal.wait_for("Plot: results/plot.png")
    terminal.send("/show plot")
    terminal.send("/exit")
    assert terminal.end() == 0, terminal.text
    assert "Traceback" not in terminal.text
    return terminal


def test_kitty(program: Program) -> None:
    terminal = drawn(program, "kitty")
    assert terminal.asked == 1  # for both pictures
    chunks = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", terminal.raw)[1:]  # after the question
    assert len(chunks) == 2
    for keys, data in chunks:
        assert keys == "a=T,q=2,f=24,o=z,s=40,v=20,m=0"
        assert zlib.decompress(base64.b64decode(data)) == ROW * 20


def test_iterm2(program: Program) -> None:
    terminal = drawn(program, "iterm2")
    first, second = re.findall(r"\x1b\]1337;File=inline=1;([^:]*):([^\x07]*)\x07", terminal.raw)
    assert first == second
    png = base64.b64decode(first[1])
    assert f"size={len(png)};" in first[0]
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", png[16:24]) == (40, 20)
    start = png.index(b"IDAT") + 4
    assert zlib.decompress(png[start : png.index(b"IEND") - 8]) == (b"\0" + ROW) * 20


def test_sixel(program: Program) -> None:
    terminal = drawn(program, "sixel")
    first, second = re.findall(r"\x1bPq([^\x1b]*)\x1b\\", terminal.raw)
    assert first == second
    assert first.startswith('"1;1;40;20')
    assert "2;100;0;0" in first
    assert "2;0;0;100" in first
    bands = first.split("-")
    assert len(bands) == 5  # four of six rows, and what is behind the last
    halves = {re.sub(r"^#\d+", "", line) for line in re.sub(r'^".*?(?=#\d+[!?~])', "", bands[1]).split("$")}
    assert halves == {"!20~!20?", "!20?!20~"}
    assert "!20B" in bands[3]  # two rows are left


def test_half_blocks_where_there_is_colour(program: Program) -> None:
    program.environment["COLORTERM"] = "truecolor"
    terminal = drawn(program, "plain")
    assert terminal.raw.count("▀") == 2 * 40 * 10
    assert "\x1b[38;2;255;0;0;48;2;255;0;0m" in terminal.raw
    for picture in ("\x1bP", "\x1b_Ga", "\x1b]"):
        assert picture not in terminal.raw


def test_who_says_nothing_gets_names(program: Program) -> None:
    terminal = drawn(program, "nothing")
    assert terminal.asked == 1
    assert "▀" not in terminal.raw
    assert (
        f"Not shown: this terminal draws no pictures. On this machine: {program.workspace}" in terminal.text
    )


@pytest.mark.parametrize(("term", "no_color"), [("dumb", ""), ("xterm-256color", "1")])
def test_no_colours_no_blocks(program: Program, term: str, no_color: str) -> None:
    program.environment["NO_COLOR"] = no_color
    terminal = drawn(program, "plain", term=term)
    assert terminal.asked == (0 if term == "dumb" else 1)
    assert "▀" not in terminal.raw


def test_a_file_that_is_no_picture_is_named_and_steers_nothing(program: Program) -> None:
    lies = r"printf '\033]0;title\007\033Pq#0~\033\\' > /results/plot.png"
    terminal = drawn(program, "kitty", lies)
    assert "Not shown: " in terminal.text
    assert "cannot identify image file" in terminal.text
    assert "title" not in terminal.raw.split("Here it is.")[1]


def test_run_shows_plots_too(program: Program) -> None:
    program.script(execute(DRAW), "Here it is.")
    terminal = ScreenTerminal(program, ["run", "--approve", "auto", "go"], "kitty")
    terminal.wait_for("Plot: results/plot.png")
    assert terminal.end() == 0
    assert "a=T,q=2,f=24,o=z,s=40,v=20,m=0" in terminal.raw
