"""The picture of the benchmark shows the figures of the report."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.bench.picture import LABEL, PANELS, PICTURE, draw

SVG = "{http://www.w3.org/2000/svg}"


def test_bars_are_proportional_and_the_best_comes_first() -> None:
    figures = [
        {
            "name": name,
            "unit": "commands/s" if "callers" in name else "ms",
            "values": {"sandbox": 20, "a<b": 40},
        }
        for name, _ in PANELS
    ]
    svg = draw({"taken": "2031-05-06T07:08:09+00:00", "machine": "z80, 3 cores", "figures": figures})
    root = ElementTree.fromstring(svg)
    bars = [float(bar.attrib["width"]) for bar in root.iter(f"{SVG}rect")]
    texts = [text.text or "" for text in root.iter(f"{SVG}text") if not text.attrib["class"]]
    assert texts[::2] == [LABEL, "a<b"] * 2 + ["a<b", LABEL, LABEL, "a<b"]
    assert bars[1] == pytest.approx(2 * bars[0], rel=0.1)
    assert PICTURE.read_text().count(f">{LABEL}<") == len(PANELS)
