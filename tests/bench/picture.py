"""Draw the comparison of the last `make bench`: `python -m tests.bench.picture`.

Reads tests/artifacts/bench.json and writes docs/bench.svg.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from tests.bench.measure import REPORT

__all__ = ["draw"]

PICTURE = Path(__file__).parents[2] / "docs" / "bench.svg"
PANELS = (
    ("warm `echo hi`", "One command in a sandbox that runs"),
    ("first command in a new sandbox", "From nothing to the first output"),
    ("16 callers of `echo hi` at once", "Sixteen callers at once: more is better"),
    ("read of a small file", "Reading a small file"),
)
"""Names of the drawn figures, each with its heading."""
OURS = "sandbox"
LABEL = "this project"
_LEFT_OUT = {"sandbox async"}

_WIDTH, _LEFT, _BAR, _GAP = 760, 210, 16, 22
_LONGEST = _WIDTH - _LEFT - 130
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.head { font-weight: 600; font-size: 14px }
.small { font-size: 11px; fill: #59636e }
.ours { fill: #1a7f37 }
.other { fill: #afb8c1 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .small { fill: #9198a1 }
  .ours { fill: #3fb950 }
  .other { fill: #57606a }
}
"""


def draw(report: dict[str, Any]) -> str:
    """Return the picture of a report as SVG.

    Raises:
        KeyError: The report lacks a figure, because only some parts were measured.
    """
    figures = {figure["name"]: figure for figure in report["figures"]}
    missing = [name for name, _ in PANELS if name not in figures]
    if missing:
        raise KeyError(f"the report lacks {', '.join(missing)}: take all figures with `make bench`")
    body: list[str] = []
    y = 20
    for name, heading in PANELS:
        rows = list(_panel(figures[name], heading, y))
        body += rows[:-1]
        y = int(rows[-1])
    taken = f"{report['taken'][:10]}, {report['machine']}; median of one run, all interleaved"
    body.append(_text(8, y, f"Taken {taken}", "small"))
    opened = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 14}" role="img">'
    title = "<title>This project beside its peers and the host</title>"
    return "\n".join((opened, title, f"<style>{_STYLE}</style>", *body, "</svg>\n"))


def _panel(figure: dict[str, Any], heading: str, y: int) -> Iterator[str]:
    """Yield the elements of one panel, then the position of the next panel."""
    values = {name: value for name, value in figure["values"].items() if name not in _LEFT_OUT}
    yield _text(8, y, f"{heading}, {figure['unit']}", "head")
    y += 12
    more = figure["unit"].endswith("/s")
    for name, value in sorted(values.items(), key=lambda item: item[1], reverse=more):
        kind = "ours" if name == OURS else "other"
        length = max(2, value / max(values.values()) * _LONGEST)
        label = LABEL if name == OURS else name
        yield _text(_LEFT - 10, y + 12, label, anchor="end")
        yield f'<rect class="{kind}" x="{_LEFT}" y="{y}" width="{length:.1f}" height="{_BAR}" rx="3"/>'
        yield _text(int(_LEFT + length) + 8, y + 12, _number(value))
        y += _GAP
    yield str(y + 26)


def _text(x: int, y: int, text: str, kind: str = "", *, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def main() -> None:
    PICTURE.write_text(draw(json.loads(REPORT.read_text())))
    print(f"written: {PICTURE}")


if __name__ == "__main__":
    main()
