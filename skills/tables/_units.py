"""Units that measure the same thing, so that 850 g and 1.4 kg are numbers of one column."""

from __future__ import annotations

from collections.abc import Collection

_SIZES = (
    {"mg": 1, "g": 1_000, "kg": 1_000_000, "t": 1_000_000_000, "lb": 453_592.37, "oz": 28_349.523125},
    {"mm": 1, "cm": 10, "m": 1_000, "km": 1_000_000, "ft": 304.8, "mi": 1_609_344},
    {"ml": 1, "l": 1_000},
    {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "days": 86_400_000, "weeks": 604_800_000},
    {"kWh": 1, "MWh": 1_000},
)
"""Of each kind the units, with how many of the smallest they are (pound and mile: the international ones).
kB and MB are none: they are thousands to some, 1,024 to others."""
_DIGITS = 15


def alike(units: Collection[str]) -> bool:
    """Whether all of these measure the same thing."""
    return any(sizes.keys() >= set(units) for sizes in _SIZES)


def largest(units: Collection[str]) -> str:
    """The largest of units that measure the same thing: of g and kg, kg."""
    sizes = next(sizes for sizes in _SIZES if sizes.keys() >= set(units))
    return max(units, key=sizes.__getitem__)


def converted(value: float, unit: str, to: str) -> float:
    """A value of one unit in another that measures the same."""
    if unit == to:
        return value
    sizes = next(sizes for sizes in _SIZES if unit in sizes)
    return float(f"{value * sizes[unit] / sizes[to]:.{_DIGITS}g}")
