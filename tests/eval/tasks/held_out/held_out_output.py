"""Programs and plots that are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta

from tests.eval.checks import all_of, figure, prints
from tests.eval.data import Draw, table
from tests.eval.plot_checks import bars, line_through
from tests.eval.task import Task

ON_TIME = [25.0, 70.91, 68.48, 35.0, 31.58]
"""Percent: airport, harbour, ring, station, university."""
FREE = [
    *(439.65, 446.79, 446.88, 442.55, 441.19, 426.42, 384.62, 293.73, 193.0, 137.79, 106.68, 89.9),
    *(103.57, 126.73, 115.23, 128.58, 177.63, 237.0, 274.85, 263.03, 299.48, 347.67, 390.21, 426.69),
]
"""On average in each hour, from 0 to 23."""


def _arrivals() -> Mapping[str, bytes]:
    draw = Draw(331)
    late = {"harbour": 4, "airport": 12, "university": 7, "ring": 5, "station": 9}
    lines = ["harbour", "airport", "ring", "ring", "university", "station", "university"]
    rows = []
    for number in range(330):
        line = draw.pick(lines)
        rows.append(
            (
                number + 1,
                line,
                draw.pick(["Town Hall", "Zoo", "Docks"]),
                draw.below(late[line]) + draw.below(3),
            )
        )
    return {"arrivals.csv": table("arrival line stop minutes_late", rows)}


def _parking() -> Mapping[str, bytes]:
    draw = Draw(332)
    usual = [
        *(410, 415, 420, 420, 415, 400, 360, 270, 170, 110, 80, 60),
        *(75, 95, 90, 105, 150, 215, 250, 235, 270, 320, 360, 395),
    ]
    rows = []
    for day in range(18):
        for half in range(48):
            free = usual[half // 2] + draw.below(50) + (half % 2) * 4
            if draw.below(7):
                when = f"{date(2024, 3, 4) + timedelta(days=day)} {half // 2:02}:{half % 2 * 30:02}"
                rows.append((when, free, 480 - free))
    return {"parking.csv": table("time free taken", rows)}


TASKS = [
    Task(
        name="isbn",
        text="Write a program /results/isbn.py that takes an ISBN-13 as its argument, with or without "
        "hyphens, and prints `valid` or `invalid`: it is valid if it has 13 digits and their sum, each "
        "second digit counted three times, is a multiple of 10. For example 978-3-16-148410-0 is valid.",
        check=prints(
            "isbn.py",
            [
                (("978-3-16-148410-0",), "", "valid"),
                (("9780306406157",), "", "valid"),
                (("978-0-306-40615-8",), "", "invalid"),
                (("9780306406517",), "", "invalid"),
                (("978-0-306-40615",), "", "invalid"),
                (("97803064061570",), "", "invalid"),
                (("979-10-90636-07-1",), "", "valid"),
            ],
        ),
        reference='''
(RESULTS / "isbn.py").write_text("""
import sys
digits = sys.argv[1].replace("-", "")
good = len(digits) == 13 and digits.isdigit()
total = sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits) if good)
print("valid" if good and total % 10 == 0 else "invalid")
""")
''',
        mistake=("len(digits) == 13 and ", ""),
    ),
    Task(
        name="league",
        text="Write a program /results/league.py that reads results of matches from standard input, one a "
        "line such as `Lions 3-1 Bears`, and prints each team with its points, one a line as `Lions 3`: 3 "
        "for a win, 1 for a draw, 0 for a defeat. The most points come first; of equal teams the "
        "alphabetically first.",
        check=prints(
            "league.py",
            [
                ((), "Lions 3-1 Bears\n", "Lions 3\nBears 0"),
                (
                    (),
                    "Wolves 2-2 Bears\nLions 0-1 Wolves\nBears 10-9 Lions\nLions 4-0 Foxes\n",
                    "Bears 4\nWolves 4\nLions 3\nFoxes 0",
                ),
                ((), "Owls 0-0 Newts\nNewts 1-2 Crows\nCrows 1-1 Owls", "Crows 4\nOwls 2\nNewts 1"),
            ],
        ),
        reference='''
(RESULTS / "league.py").write_text("""
import sys
points = {}
for line in sys.stdin:
    if not line.strip():
        continue
    home, result, guest = line.split()
    one, other = map(int, result.split("-"))
    points[home] = points.get(home, 0) + (3 if one > other else 1 if one == other else 0)
    points[guest] = points.get(guest, 0) + (3 if other > one else 1 if one == other else 0)
for team in sorted(points, key=lambda team: (-points[team], team)):
    print(team, points[team])
""")
''',
        mistake=("(-points[team], team)", "-points[team]"),
    ),
    Task(
        name="on-time",
        text="A bus is on time if it is at most 3 minutes late. Draw a bar chart of the percentage of "
        "arrivals in /data/arrivals.csv that are on time for each line, the lines in alphabetical order "
        "from left to right, all bars in #800080 on white, the axis from zero, no legend. Save it as "
        "/results/on_time.png.",
        files=_arrivals,
        check=bars("on_time.png", ON_TIME, colour=(128, 0, 128)),
        reference="""
count, good = {}, {}
for row in rows("arrivals.csv"):
    count[row["line"]] = count.get(row["line"], 0) + 1
    good[row["line"]] = good.get(row["line"], 0) + (int(row["minutes_late"]) <= 3)
shares = [100 * good[line] / count[line] for line in sorted(count)]
draw_bars(RESULTS / "on_time.png", shares, colour=(128, 0, 128))
""",
        mistake=("<= 3", "< 3"),
    ),
    Task(
        name="free-parking",
        text="Draw how many places are free on average in each hour of the day (0 to 23, all days in "
        "/data/parking.csv together) as one pure red (#ff0000) line without markers or legend, and save it "
        "as /results/parking.png. What is the lowest of these averages, to two decimals?",
        files=_parking,
        check=all_of(figure(89.9), line_through("parking.png", FREE)),
        reference="""
hours = [[] for _ in range(24)]
for row in rows("parking.csv"):
    hours[int(row["time"][11:13])].append(int(row["free"]))
means = [sum(hour) / len(hour) for hour in hours]
draw_line(RESULTS / "parking.png", means)
print(f"The lowest average is {min(means):.2f}.")
""",
        mistake=('["free"]', '["taken"]'),
    ),
]
