"""Names of files in the folder of results, for the skills that write there."""

from __future__ import annotations

from pathlib import Path

__all__ = ["as_shown", "results_file"]

RESULTS = Path("/results")


def results_file(name: str, suffix: str, others: tuple[str, ...] = ()) -> Path:
    """Return the file for `name` in the results, and make its folder. Links are followed.

    `suffix` is added unless the name ends with it or with one of `others`.

    Raises:
        ValueError: `name` leads out of the results, is a folder there, or is not a file name.
    """
    if not name.isprintable() or not name.strip("./ ") or name.endswith("/"):
        raise ValueError(f"no name for a file: {name!r}; give one such as report{suffix}")
    whole = name if name.lower().endswith((suffix, *others)) else f"{name}{suffix}"
    file = (RESULTS / whole.removeprefix("results/")).resolve()
    if not file.is_relative_to(RESULTS.resolve()):
        raise ValueError(f"the name {name!r} leads out of {RESULTS}; give one such as report{suffix}")
    if file.is_dir():
        raise ValueError(f"{name!r} is a folder in {RESULTS}")
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def as_shown(file: Path) -> str:
    """Return the path of a file of the results as people know it: below /results."""
    return str(RESULTS / file.relative_to(RESULTS.resolve()))
