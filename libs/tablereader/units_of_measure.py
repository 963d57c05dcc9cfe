"""Converts units of one kind, so that 850 g and 1.4 kg can be numbers of one column."""

from __future__ import annotations

from collections.abc import Collection

_SIZES = (
    {"mg": 1, "g": 1_000, "kg": 1_000_000, "t": 1_000_000_000, "lb": 453_592.37, "oz": 28_349.523125},
    {"mm": 1, "cm": 10, "m": 1_000, "km": 1_000_000, "ft": 304.8, "mi": 1_609_344},
    {"ml": 1, "l": 1_000},
    {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "days": 86_400_000, "weeks": 604_800_000},
    {"kWh": 1, "MWh": 1_000},
)
"""Units of each kind as multiples of the smallest (international pound and mile). kB and MB are left out,
because their size is 1,000 or 1,024."""
_DIGITS = 15


def alike(units: Collection[str]) -> bool:
    """Return whether all units are of one kind."""
    return any(sizes.keys() >= set(units) for sizes in _SIZES)


def largest(units: Collection[str]) -> str:
    """Return the largest of units of one kind: of g and kg, kg."""
    sizes = next(sizes for sizes in _SIZES if sizes.keys() >= set(units))
    return max(units, key=sizes.__getitem__)


def converted(value: float, unit: str, to: str) -> float:
    """Return a value in another unit of the same kind."""
    if unit == to:
        return value
    sizes = next(sizes for sizes in _SIZES if unit in sizes)
    return float(f"{value * sizes[unit] / sizes[to]:.{_DIGITS}g}")
