"""The README's picture of the comparison draws what the run's JSON says."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.bench.picture import LABEL, PANELS, PICTURE, draw

SVG = "{http://www.w3.org/2000/svg}"


def report(**values: float) -> dict[str, Any]:
    figures = [
        {"name": name, "unit": "commands/s" if "callers" in name else "ms", "values": values}
        for name, _ in PANELS
    ]
    return {"taken": "2031-05-06T07:08:09+00:00", "machine": "z80, 3 cores", "figures": figures}


def drawn(svg: str) -> list[tuple[str, float, str]]:
    """Each bar in order: its label, its length, the number beside it."""
    root = ElementTree.fromstring(svg)
    bars = [float(bar.attrib["width"]) for bar in root.iter(f"{SVG}rect")]
    texts = [text.text or "" for text in root.iter(f"{SVG}text") if not text.attrib["class"]]
    return [(texts[2 * n], bars[n], texts[2 * n + 1]) for n in range(len(bars))]


def test_every_contestant_has_a_bar_as_long_as_its_value() -> None:
    bars = drawn(draw(report(**{"sandbox": 1.5, "a<b": 3.0, "slow one": 300.0})))
    assert len(bars) == 3 * len(PANELS)
    first = {label: (length, number) for label, length, number in bars[:3]}
    assert first[LABEL][1] == "1.50"
    assert first["a<b"][1] == "3.00"
    assert first["slow one"][1] == "300"
    assert first["slow one"][0] == pytest.approx(100 * first["a<b"][0], rel=0.1)


def test_the_best_comes_first() -> None:
    bars = drawn(draw(report(sandbox=20, other=40)))
    assert [label for label, _, _ in bars] == [LABEL, "other", LABEL, "other", "other", LABEL, LABEL, "other"]


def test_it_names_the_day_and_the_machine() -> None:
    svg = draw(report(sandbox=1))
    assert "2031-05-06, z80, 3 cores" in svg


def test_a_run_of_some_parts_is_refused() -> None:
    some = report(sandbox=1)
    del some["figures"][0]
    with pytest.raises(KeyError, match=r"echo hi.*make bench"):
        draw(some)


def test_the_one_in_the_repository_was_drawn_by_this() -> None:
    svg = PICTURE.read_text()
    assert [label for label, _, _ in drawn(svg)].count(LABEL) == len(PANELS)
    assert re.search(r"Taken \d{4}-\d\d-\d\d, \S+, \d+ cores", svg)
