"""Plots at terminals with the kitty protocol, with sixels, with colours only, and without colours."""

from __future__ import annotations

import base64
import io
import re

import pytest
from PIL import Image

from tests.clients.cli_program import Program, execute
from tests.clients.screen_terminal import ScreenTerminal

pytestmark = pytest.mark.docker

# Left half red, right half blue, 40 times 20.
DRAW = (
    "python3 -c \"from PIL import Image; i = Image.new('RGB', (40, 20), (255, 0, 0)); "
    "i.paste((0, 0, 255), (20, 0, 40, 20)); i.save('/results/plot.png')\""
)


def drawn(program: Program, says: str, command: str = DRAW, **options: str) -> ScreenTerminal:
    """Hold a conversation that makes a plot and shows it again with /show plot."""
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


def pictures(terminal: ScreenTerminal) -> list[bytes]:
    """Return the files sent by the kitty protocol; the last piece of each has m=0."""
    whole, data = [], ""
    for keys, piece in re.findall(r"\x1b_G([^;\x1b]*);([^\x1b]*)\x1b\\", terminal.raw):
        if "a=q" not in keys:
            data += piece
            if "m=1" not in keys:
                whole.append(base64.b64decode(data))
                data = ""
    return whole


@pytest.mark.thorough
def test_each_kind_of_terminal_gets_its_picture(program: Program) -> None:
    terminal = drawn(program, "kitty")
    assert terminal.asked == 1  # for both pictures
    first, second = pictures(terminal)
    assert first == second
    image = Image.open(io.BytesIO(first))
    assert image.getpixel((1, 1))[:3] == (255, 0, 0)
    assert image.getpixel((image.width - 2, 1))[:3] == (0, 0, 255)

    first, second = re.findall(r"\x1bP[^q]*q([^\x1b]*)\x1b\\", drawn(program, "sixel").raw)
    assert first == second
    assert "2;100;0;0" in first and "2;0;0;100" in first

    program.environment["COLORTERM"] = "truecolor"
    terminal = drawn(program, "nothing")
    assert terminal.raw.count("▀") >= 2 * 40 * 10
    assert "\x1b[38;2;255;0;0;48;2;255;0;0m" in terminal.raw


@pytest.mark.thorough
@pytest.mark.parametrize(("term", "no_color"), [("dumb", ""), ("xterm-256color", "1")])
def test_terminal_without_colours_gets_no_blocks(program: Program, term: str, no_color: str) -> None:
    program.environment["NO_COLOR"] = no_color
    terminal = drawn(program, "plain", term=term)
    assert terminal.asked == (0 if term == "dumb" else 1)
    assert "▀" not in terminal.raw
    assert not [
        code for code in ("\x1b[31", "\x1b[32", "\x1b[33", "\x1b[36", "\x1b[38") if code in terminal.raw
    ]
    assert term != "dumb" or "\x1b[" not in terminal.raw
    reason = "Not shown: this terminal draws no pictures. On this machine: "
    assert f"{reason}{program.workspace}" in " ".join(terminal.text.split())  # long lines are wrapped


@pytest.mark.thorough
def test_changed_picture_is_drawn_before_and_after(program: Program) -> None:
    data = program.workspace / "data"
    data.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (40, 20), (255, 0, 0)).save(data / "chart.png")
    change = "from PIL import Image; Image.new('RGB', (60, 20), (0, 0, 255)).save('/data/chart.png')"
    program.script(execute(f'python3 -c "{change}"'), "It is blue now.")
    program.environment["APPROVALS"] = "effects"
    terminal = ScreenTerminal(program, ["chat"], "kitty")
    terminal.send("go")
    terminal.wait_for("/data/chart.png, before | after:")
    terminal.wait_for("or [q]uit")
    terminal.type("k\r")
    terminal.wait_for("It is blue now.")
    terminal.send("/exit")
    assert terminal.end() == 0, terminal.text
    assert "/data/chart.png: before 40 by 20, after 60 by 20" in terminal.text
    drawing, _ = pictures(terminal)  # the other one is the plot of the turn
    image = Image.open(io.BytesIO(drawing))
    assert image.getpixel((1, 1))[:3] == (255, 0, 0)
    assert image.getpixel((image.width - 2, 1))[:3] == (0, 0, 255)


@pytest.mark.thorough
def test_broken_picture_is_named_and_not_drawn(program: Program) -> None:
    lies = r"printf '\033]0;title\007\033Pq#0~\033\\' > /results/plot.png"
    terminal = drawn(program, "kitty", lies)
    assert "Not shown: " in terminal.text
    assert "cannot identify image file" in terminal.text
    assert "title" not in terminal.raw.split("Here it is.")[1]
