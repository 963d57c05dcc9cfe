"""Tables to write: the best of each group, several files put together."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta

from tests.eval.checks import csv_file
from tests.eval.data import Draw, table
from tests.eval.task import Task

PODIUM = """category,rank,athlete
adults,1,Thea
adults,2,Wim
adults,3,Hugo
juniors,1,Gesa
juniors,2,Pim
juniors,3,Clara
masters,1,Joris
masters,2,Bruno
masters,3,Vida
"""
LEVELS = """well,day,level_m
chapel,2024-04-01,5.31
chapel,2024-04-08,3.63
mill,2024-04-08,3.98
orchard,2024-04-08,6.09
mill,2024-04-22,6.65
chapel,2024-04-29,4.66
mill,2024-04-29,4.53
mill,2024-05-06,3.7
chapel,2024-05-13,5.61
mill,2024-05-13,7.13
orchard,2024-05-13,7.59
chapel,2024-05-20,5.66
mill,2024-05-20,7.03
orchard,2024-05-20,7.91
mill,2024-06-03,7.53
orchard,2024-06-03,4.6
"""


def _climbing() -> Mapping[str, bytes]:
    draw = Draw(333)
    names = [
        *("Aino", "Bruno", "Clara", "Dario", "Edda", "Fabio", "Gesa", "Hugo", "Ilse", "Joris", "Kaja"),
        *("Lars", "Malin", "Nico", "Olga", "Pim", "Quinn", "Runa", "Sven", "Thea", "Ugo", "Vida"),
        *("Wim", "Yara"),
    ]
    rows = [
        (
            name,
            draw.pick(["juniors", "adults", "masters"]),
            draw.pick(["Mons", "Namur"]),
            20 + draw.below(180),
        )
        for name in names
    ]
    return {"climbing.csv": table("athlete category club points", rows)}


def _wells() -> Mapping[str, bytes]:
    draw = Draw(334)
    files = {}
    for well in ("orchard", "chapel", "mill"):
        rows = [
            (
                date(2024, 4, 1) + timedelta(weeks=week),
                "" if draw.below(4) == 0 else (300 + draw.below(500)) / 100,
            )
            for week in range(10)
            if draw.below(7)
        ]
        files[f"wells/{well}.csv"] = table("day level_m", rows)
    return files


TASKS = [
    Task(
        name="podium",
        text="Write /results/podium.csv with the columns category, rank and athlete: the three athletes with "
        "the most points in each category of /data/climbing.csv, with rank 1 for the best. Categories in "
        "alphabetical order, and in each the best first.",
        files=_climbing,
        check=csv_file("podium.csv", PODIUM),
        reference="""
lines = ["category,rank,athlete"]
athletes = sorted(rows("climbing.csv"), key=lambda row: -int(row["points"]))
for category in sorted({row["category"] for row in athletes}):
    best = [row["athlete"] for row in athletes if row["category"] == category][:3]
    lines += [f"{category},{rank},{name}" for rank, name in enumerate(best, 1)]
(RESULTS / "podium.csv").write_text("\\n".join(lines))
""",
        mistake=("[:3]", "[:2]"),
    ),
    Task(
        name="well-levels",
        text="Put the files of /data/wells together into one table /results/wells.csv with the columns well "
        "(the name of the file without .csv), day and level_m. Leave out the rows without a level, and sort "
        "by day, then by well.",
        files=_wells,
        check=csv_file("wells.csv", LEVELS),
        reference="""
levels = []
for path in (DATA / "wells").iterdir():
    for row in rows(f"wells/{path.name}"):
        if row["level_m"]:
            levels.append((row["day"], path.stem, row["level_m"]))
lines = [f"{well},{day},{level}" for day, well, level in sorted(levels)]
(RESULTS / "wells.csv").write_text("\\n".join(["well,day,level_m", *lines]))
""",
        mistake=("in sorted(levels)]", "in sorted(levels, key=lambda one: (one[1], one[0]))]"),
    ),
]
