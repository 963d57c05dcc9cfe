"""Plots, measured by colour: heights of bars, the course of a line, labels, size."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from tests.eval.checks import all_of, first_named, month
from tests.eval.data import Draw, table
from tests.eval.pictures import bars, line_through, png_size, svg_labels
from tests.eval.task import Task


def _branches() -> Mapping[str, bytes]:
    draw = Draw(81)
    rows = []
    for _ in range(260):
        branch = draw.pick(["Hove", "Arden", "Arden", "Crewe", "Deal", "Deal", "Deal"])
        rows.append((branch, draw.cents(70, 180) if branch == "Hove" else draw.cents(5, 120)))
    return {"branches.csv": table("branch sales", rows)}


def _rain() -> Mapping[str, bytes]:
    draw = Draw(82)
    rows = []
    for _ in range(420):
        day = draw.day("2023-01-01", 365)
        rows.append((day, round(draw.below(90) / 10 * (1 + (day.month in (2, 9)) + (day.month == 9)), 1)))
    rows.append((date(2023, 5, 5), 61.0))
    return {"rain.csv": table("day millimetres", rows)}


def _teams() -> Mapping[str, bytes]:
    draw = Draw(83)
    rows = [
        (
            number + 1,
            draw.pick(["Otters", "Badgers", "Herons", "Voles", "Moles", "Stoats", "Hares"]),
            draw.below(30),
        )
        for number in range(240)
    ]
    return {"matches.csv": table("match team points", rows)}


def _scores() -> Mapping[str, bytes]:
    draw = Draw(84)
    low = {"algebra": 40, "biology": 62, "chemistry": 25, "drawing": 71}
    rows = []
    for _ in range(230):
        subject = draw.pick([*low, "algebra", "algebra", "chemistry"])
        rows.append((subject, low[subject] + draw.below(28)))
    return {"scores.csv": table("subject score", rows)}


RAIN = [122.4, 238.8, 136.8, 128.2, 224.5, 136.3, 153.4, 180.3, 516.0, 139.1, 151.4, 216.8]

TASKS = [
    Task(
        name="bar-plot",
        text="Draw a bar chart of the total sales of each branch in /data/branches.csv, branches in alphabetical order from left to right, all bars "
        "pure red (#ff0000) on white, the axis from zero. Save it as /results/branches.png.",
        files=_branches,
        check=bars("branches.png", [5048.37, 2529.9, 6755.71, 4331.81]),
        reference="""
total = {}
for row in rows("branches.csv"):
    total[row["branch"]] = total.get(row["branch"], 0) + float(row["sales"])
draw_bars(RESULTS / "branches.png", [total[name] for name in sorted(total)])
""",
        wrong={
            "rows counted": ('float(row["sales"])', "1"),
            "by size": ("sorted(total)]", "sorted(total, key=total.get)]"),
            "the last sale": ('total.get(row["branch"], 0) + float', "float"),
            "one left out": ("sorted(total)]", "sorted(total)[1:]]"),
        },
    ),
    Task(
        name="line-plot",
        text="Draw the total millimetres of rain in each month of 2023 (January to December) from /data/rain.csv as one pure red (#ff0000) line "
        "without markers or legend, and save it as /results/rain.png. Which month had the most?",
        files=_rain,
        check=all_of(
            first_named(month(2023, 9), *(month(2023, number) for number in range(1, 13) if number != 9)),
            line_through("rain.png", RAIN),
        ),
        reference="""
total = [0] * 12
for row in rows("rain.csv"):
    total[int(row["day"][5:7]) - 1] += float(row["millimetres"])
draw_line(RESULTS / "rain.png", total)
print("It rained most in", datetime.date(2023, total.index(max(total)) + 1, 1).strftime("%B"))
""",
        wrong={
            "the wettest day": ("] += float(", "] = float("),
            "days counted": ('float(row["millimetres"])', "1"),
            "sorted": ('"rain.png", total)', '"rain.png", sorted(total))'),
            "another month": ("max(total)", "min(total)"),
        },
    ),
    Task(
        name="svg-plot",
        text="Plot the five teams with the most points in /data/matches.csv as a bar chart in the SVG file /results/teams.svg: the best team "
        "leftmost, and each bar labelled on the x axis with its team's name.",
        files=_teams,
        check=svg_labels(
            "teams.svg", ["Otters", "Moles", "Herons", "Hares", "Voles"], without=["Badgers", "Stoats"]
        ),
        reference="""
total = {}
for row in rows("matches.csv"):
    total[row["team"]] = total.get(row["team"], 0) + int(row["points"])
best = sorted(total, key=total.get, reverse=True)[:5]
(RESULTS / "teams.svg").write_text("<svg>" + "".join(f"<text>{team}</text>" for team in best) + "</svg>")
""",
        wrong={
            "all teams": ("[:5]", ""),
            "the worst": ("reverse=True", "reverse=False"),
            "matches counted": ('int(row["points"])', "1"),
            "alphabetical": ("for team in best)", "for team in sorted(best))"),
        },
    ),
    Task(
        name="mean-plot",
        text="Draw a bar chart of the average score of each subject in /data/scores.csv, sorted from the lowest average to the highest, bars pure "
        "blue (#0000ff) on white, the axis from zero, without a legend. Save it as /results/scores.png, exactly 1200 pixels wide and 600 high.",
        files=_scores,
        check=all_of(
            png_size("scores.png", 1200, 600),
            bars("scores.png", [38.33, 54.33, 75.59, 84.59], colour=(0, 0, 255)),
        ),
        reference="""
total, count = {}, {}
for row in rows("scores.csv"):
    total[row["subject"]] = total.get(row["subject"], 0) + float(row["score"])
    count[row["subject"]] = count.get(row["subject"], 0) + 1
means = sorted(total[name] / count[name] for name in total)
draw_bars(RESULTS / "scores.png", means, size=(1200, 600), colour=(0, 0, 255))
""",
        wrong={
            "sums": (" / count[name]", ""),
            "the highest first": (
                "sorted(total[name] / count[name] for name in total)",
                "sorted((total[name] / count[name] for name in total), reverse=True)",
            ),
            "another size": ("(1200, 600)", "(640, 480)"),
            "another colour": ("(0, 0, 255)", "(31, 119, 180)"),
        },
    ),
]
