"""Draws bars or lines of a series into /results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from skills.file._results import as_shown, results_file

_DPI = 100
_PIXELS_FROM = 50
_MAX_LABELS = 60


def draw(
    series: pd.Series | pd.DataFrame | Mapping[str, float],
    name: str,
    kind: str,
    *,
    title: str | None,
    xlabel: str | None,
    ylabel: str | None,
    color: str | None,
    size: tuple[float, float] | None,
) -> str:
    file = results_file(name, ".png", (".svg", ".pdf", ".jpg"))
    if kind not in ("bar", "line"):
        raise ValueError(f"plot: kind is 'bar' or 'line', not {kind!r}")
    data = _numbers(series)
    names = [str(part) for part in data.index.names if part]
    labels = [" / ".join(map(str, key)) if isinstance(key, tuple) else str(key) for key in data.index]
    if all(label.endswith(" 00:00:00") for label in labels):  # days
        labels = [label.removesuffix(" 00:00:00") for label in labels]
    width, height = size or (max(8.0, min(0.35 * len(data), 20.0)), 5.0)
    if width > _PIXELS_FROM:
        width, height = width / _DPI, height / _DPI
    # A "$" in a name is a dollar, not a formula; the text of an SVG file stays text.
    with matplotlib.rc_context({"svg.fonttype": "none", "text.parse_math": False}):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes: Any = figure.subplots()
        data.set_axis(range(len(data))).plot(
            kind=kind, ax=axes, color=color, title=title, legend=data.shape[1] > 1
        )
        slanted = len(labels) > 6 or max(map(len, labels)) > 12
        axes.set_xticks(
            range(0, len(labels), step := -(-len(labels) // _MAX_LABELS)),
            labels[::step],
            rotation=45 if slanted else 0,
            ha="right" if slanted else "center",
        )
        axes.set_xlabel(" / ".join(names) if xlabel is None else xlabel)
        axes.set_ylabel((str(data.columns[0]) if data.shape[1] == 1 else "") if ylabel is None else ylabel)
        figure.savefig(file, dpi=_DPI)
    print(f"saved {as_shown(file)}")
    return as_shown(file)


def _numbers(series: pd.Series | pd.DataFrame | Mapping[str, float]) -> pd.DataFrame:
    if isinstance(series, Mapping):
        series = pd.Series(dict(series), name="")
    if isinstance(series, pd.Series):
        series = series.to_frame("" if series.name is None else series.name)
    if not isinstance(series, pd.DataFrame):
        raise TypeError("plot: give a Series, such as totals(table, 'region', 'amount')")
    text = [str(name) for name in series.columns if not pd.api.types.is_numeric_dtype(series[name])]
    if text:
        raise ValueError(
            f"plot: {', '.join(text)} has no numbers; give a Series such as totals(table, 'region')"
        )
    if not series.notna().any(axis=None):
        raise ValueError("plot: there is nothing to draw: no value in the series")
    return series.astype(float)
