"""Bars or lines of a series as a picture in /results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

RESULTS = Path("/results")
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
    markers: bool,
    legend: bool | None,
) -> str:
    file = _target(name)
    if kind not in ("bar", "line"):
        raise ValueError(f"plot: kind is 'bar' or 'line', not {kind!r}")
    data = _numbers(series)
    labels = [" / ".join(map(str, key)) if isinstance(key, tuple) else str(key) for key in data.index]
    if all(label.endswith(" 00:00:00") for label in labels):  # days
        labels = [label.removesuffix(" 00:00:00") for label in labels]
    width, height = size or (max(8.0, min(0.35 * len(data), 20.0)), 5.0)
    if width > _PIXELS_FROM:
        width, height = width / _DPI, height / _DPI
    # Without pyplot: no figure stays open, and no setting changes for what is drawn later.
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots()
        _fill(axes, data, kind, color, markers=markers)
        step = -(-len(labels) // _MAX_LABELS)
        slanted = len(labels) > 6 or max(map(len, labels)) > 12
        axes.set_xticks(
            range(0, len(labels), step),
            labels[::step],
            rotation=45 if slanted else 0,
            ha="right" if slanted else "center",
        )
        axes.set_title(title or "")
        axes.set_xlabel(
            " / ".join(str(part) for part in data.index.names if part) if xlabel is None else xlabel
        )
        axes.set_ylabel((str(data.columns[0]) if data.shape[1] == 1 else "") if ylabel is None else ylabel)
        if data.shape[1] > 1 if legend is None else legend:
            axes.legend()
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=_DPI)
    path = str(RESULTS / file.relative_to(RESULTS.resolve()))
    print(f"saved {path}")
    return path


def refuse(options: Mapping[str, object]) -> None:
    """Say what `plot` takes, where it is given anything else."""
    if options:
        raise TypeError(
            f"plot: there is no option {', '.join(options)}; there are title, xlabel, ylabel, color, size,"
            " markers and legend. What stands along the x axis is the index of the series, in its order."
            " For anything else draw with matplotlib."
        )


def _fill(axes: Any, data: pd.DataFrame, kind: str, color: str | None, *, markers: bool) -> None:
    for place, column in enumerate(data.columns):
        style = {"label": str(column), **({"color": color} if color else {})}
        if kind == "line":
            axes.plot(range(len(data)), data[column], marker="o" if markers else "", **style)
        else:
            width = 0.8 / data.shape[1]
            left = [row - 0.4 + width * (place + 0.5) for row in range(len(data))]
            axes.bar(left, data[column], width, **style)


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


def _target(name: str) -> Path:
    """The file for `name`, links followed: whatever it is called, it lies in the results."""
    if not name.isprintable() or not name.strip("./ ") or name.endswith("/"):
        raise ValueError(f"plot: no name for a file: {name!r}; give one such as sales.png")
    inside = name.removeprefix("results/")
    suffix = Path(inside).suffix.lower()
    if suffix not in (".png", ".svg"):
        if suffix in (".jpg", ".jpeg", ".pdf", ".gif", ".html", ".webp"):
            raise ValueError(f"plot: {name!r} is neither .png nor .svg; give a name such as sales.png")
        inside += ".png"
    file = (RESULTS / inside).resolve()
    if not file.is_relative_to(RESULTS.resolve()):
        raise ValueError(f"plot: the name {name!r} leads out of {RESULTS}; give one such as sales.png")
    return file
