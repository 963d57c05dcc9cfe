"""Join two tables, and say which rows found no partner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from skills.tables._keys import column_name

HOWS = ("inner", "left", "right", "outer")
_SHOWN = 3


def join(
    left: pd.DataFrame,
    right: pd.DataFrame,
    on: str | Sequence[str] | None,
    *,
    left_on: str | Sequence[str] | None,
    right_on: str | Sequence[str] | None,
    how: str,
) -> pd.DataFrame:
    if how not in HOWS:
        raise ValueError(f"merge: how is one of {', '.join(HOWS)}, not {how!r}")
    if on is None and left_on is None and right_on is None:
        on = [name for name in getattr(left, "columns", []) if name in getattr(right, "columns", [])]
    mine, theirs = _names(left, on or left_on or right_on), _names(right, on or right_on or left_on)
    if len(mine) != len(theirs) or not mine:
        raise ValueError(
            "merge: give the columns that belong together, as many of each table: on='key', or left_on and"
            f" right_on. The first table has {_listed(left)}; the second has {_listed(right)}"
        )
    for one, other in zip(mine, theirs, strict=True):
        kinds = _kind(left[one]), _kind(right[other])
        if kinds[0] != kinds[1]:
            raise ValueError(
                f"merge: {one} is {kinds[0]} in the first table and {other} is {kinds[1]} in the second, so"
                " none would fit; convert one of them, such as with .astype(str)"
            )
    keys = {"on": mine} if mine == theirs else {"left_on": mine, "right_on": theirs}
    known = pd.MultiIndex.from_frame(right[theirs])
    found = pd.MultiIndex.from_frame(left[mine]).isin(known)
    result = left.merge(right, how=how, **keys)
    _tell(left[mine][~found], len(left), dropped=how in ("inner", "right"))
    if known.has_duplicates and found.any() and len(result) > len(left):
        print(
            f"merge: {len(left):,} rows became {len(result):,}: the second table has keys more than once. To"
            " compare a value of the first with a sum of the second, add that up by its key before:"
            " totals(second, key, value).reset_index()"
        )
    return result


def _names(table: pd.DataFrame, wanted: str | Sequence[str] | None) -> list[Any]:
    given = [wanted] if isinstance(wanted, str) else list(wanted or ())
    return [column_name(table, name, "merge") for name in given]


def _listed(table: pd.DataFrame) -> str:
    return ", ".join(map(str, table.columns))


def _kind(column: pd.Series) -> str:
    if pd.api.types.is_numeric_dtype(column):
        return "a number"
    return "a date" if pd.api.types.is_datetime64_any_dtype(column) else "text"


def _tell(lost: pd.DataFrame, rows: int, *, dropped: bool) -> None:
    if lost.empty:
        return
    keys = lost.drop_duplicates()
    shown = "; ".join(" ".join(map(str, key)) for key in keys.head(_SHOWN).itertuples(index=False))
    more = "; …" if len(keys) > _SHOWN else ""
    what = "are left out" if dropped else "are kept, with gaps"
    print(
        f"merge: {len(lost):,} of {rows:,} rows of the first table found no partner and {what}: {shown}{more}"
    )
