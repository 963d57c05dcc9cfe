"""Values with units in a column of `skills.tables`: those that measure the same come to one unit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("written", "values", "unit"),
    [
        (("1 kg", "500 g"), [1, 0.5], "kg"),
        (("850g", "1.4 kg", "2.25kg"), [0.85, 1.4, 2.25], "kg"),
        (("500 g", "250 g", "1 kg"), [0.5, 0.25, 1], "kg"),
        (("90 min", "1.5 h", "45 min"), [1.5, 1.5, 0.75], "h"),
        (("3 km", "250 m"), [3, 0.25], "km"),
        (("33 cl", "0,5 l"), None, None),
        (("330 ml", "0,5 l", "1,5 l"), [0.33, 0.5, 1.5], "l"),
        (("1 lb", "1 kg", "2 kg"), [0.45359237, 1, 2], "kg"),
        (("7 days", "1 week"), [1, 1], "weeks"),
    ],
)
def test_units_of_one_kind(
    read: Any, written: tuple[str, ...], values: list[float] | None, unit: str
) -> None:
    found = read("\n".join(["w", *(f'"{each}"' for each in written)]))
    if values is None:
        assert found.columns["w"] == list(written)
        return
    assert found.columns["w"] == values
    assert any(line.startswith("number: w ") and f"{unit})" in line for line in found.lines)
    assert any(
        line.startswith("converted: w ") and line.endswith(f"are in {unit} now") for line in found.lines
    )


@pytest.mark.parametrize(
    "written",
    [
        ("5g", "4g", "3g"),  # networks, as far as a program can tell
        ("5 kg", "3 km"),
        ("5 kg", "3 g", "7"),  # of which unit is the 7?
        ("5 MB", "3 GB"),  # 1,000 or 1,024
        ("20 °C", "70 °F"),
    ],
)
def test_other_units_are_left_as_they_are(read: Any, written: tuple[str, ...]) -> None:
    found = read("\n".join(["w", *written]))
    assert found.columns["w"] == list(written)


def test_one_unit_without_a_space_is_what_its_neighbours_are(read: Any) -> None:
    assert read("w\n5 g\n7g\n").columns["w"] == [5, 7]


@given(
    st.sampled_from(
        ["mg", "g", "kg", "t", "lb", "oz", "mm", "cm", "m", "km", "ft", "mi", "ms", "s", "h", "weeks"]
    ),
    st.floats(0.001, 1e6),
)
def test_there_and_back(tables: Any, unit: str, value: float) -> None:
    units = tables("_units")
    others = next(sizes for sizes in units._SIZES if unit in sizes)
    for other in others:
        there = units.converted(value, unit, other)
        assert units.converted(there, other, unit) == pytest.approx(value, rel=1e-12)
