"""Results that are asked for: programs, plots, files."""

from __future__ import annotations

from collections.abc import Mapping

from tests.eval.checks import csv_file, prints
from tests.eval.data import Draw, table
from tests.eval.pictures import bars, dots
from tests.eval.task import Outcome, Task, Unsolved


def _nothing() -> Mapping[str, bytes]:
    return {}


def _members() -> Mapping[str, bytes]:
    draw = Draw(117)
    ages = (17, 18, 34, 35, 54, 55)
    rows = [
        (f"M{number:03}", draw.pick(ages) if draw.below(4) == 0 else 6 + min(draw.below(80), draw.below(80)))
        for number in range(260)
    ]
    return {"members.csv": table("member age", rows)}


def _trees() -> Mapping[str, bytes]:
    draw = Draw(118)
    rows = []
    for number in range(42):
        orchard = ("Hill", "Brook", "Gate")[number % 3]
        age = 4 + number // 3 * 4 + draw.below(3)
        rows.append((f"T{number:02}", orchard, age, round(1.5 + draw.below(70) / 10, 1)))
    return {
        "trees.csv": table(
            "tree orchard age_years height_m", [rows[number * 11 % 42] for number in range(42)]
        )
    }


def _hours() -> Mapping[str, bytes]:
    draw = Draw(119)
    rows = []
    for _ in range(60):
        person = draw.pick(["Ruth", "Omar", "Pia", "Quinn", "Sven", "Tara"])
        project = draw.pick(["bridge", "tunnel", "tunnel", "harbour"])
        if (person, project) not in (("Pia", "harbour"), ("Sven", "bridge"), ("Tara", "harbour")):
            rows.append((draw.day("2024-03-01", 31), person, project, 1 + draw.below(14) / 2))
    return {"hours.csv": table("day person project hours", rows)}


def _letters() -> Mapping[str, bytes]:
    draw = Draw(120)
    people = ["Hanna Weiss", "Milo Grant", "Hanna Weiss", "Ines Ferro"]
    files = {}
    for number in range(1, 15):
        to, by = draw.pick(people), draw.pick(people)
        day = f"2023-{1 + number * 5 % 12:02}-{number + 9:02}"
        body = f"Dear {to.split()[0]},\nthe parcel {4000 + draw.below(900)} for {draw.pick(people)} has arrived.\n{by}\n"
        files[f"letters/scan{number:02}.txt"] = f"From: {by}\nTo: {to}\nDate: {day}\n\n{body}".encode()
    return files


def _to_hanna(outcome: Outcome) -> None:
    """The letters to Hanna Weiss, each under its date, unchanged, and no other file."""
    right = {}
    for content in _letters().values():
        lines = content.decode().splitlines()
        if lines[1] == "To: Hanna Weiss":
            right[f"{lines[2].removeprefix('Date: ')}.txt"] = content.decode()
    made = outcome.machine.names("hanna")
    if made != sorted(right):
        raise Unsolved(f"/results/hanna has {', '.join(made) or 'nothing'}")
    for name, text in right.items():
        if outcome.machine.file(f"hanna/{name}").decode("utf-8", "replace").strip() != text.strip():
            raise Unsolved(f"hanna/{name} is not the letter")


HILL = [
    *((5, 6.8), (10, 8.0), (12, 7.6), (18, 4.1), (20, 2.0), (24, 3.9), (29, 8.1)),
    *((34, 5.0), (36, 1.7), (40, 4.4), (45, 6.1), (50, 5.3), (54, 4.8), (57, 3.8)),
]
HOURS = """person,bridge,harbour,tunnel
Omar,16.5,8,21
Pia,7,0,21
Quinn,1,28,36
Ruth,8.5,13.5,20
Sven,0,14,18.5
Tara,7,0,29
"""

PROGRAMS = [
    Task(
        name="temperatures",
        text="Write /results/temps.py, a program that reads temperatures from standard input, one a line, such as `20 C`, `-4.5C` or `68 f`: a number "
        "and C or F in either case, with or without a space between. For each it prints the same temperature in the other unit, as in "
        "`68.0 F`: one decimal, a space, the unit in upper case. Empty lines are skipped; for any other line it prints `invalid`.",
        files=_nothing,
        check=prints(
            "temps.py",
            [
                ((), "20 C\n68 f\n", "68.0 F\n20.0 C\n"),
                ((), "-40F\n\n  -4.5c \n100 C", "-40.0 C\n23.9 F\n212.0 F\n"),
                ((), "warm\n300 K\n98.6 F\nC\n", "invalid\ninvalid\n37.0 C\ninvalid\n"),
            ],
        ),
        reference='''
(RESULTS / "temps.py").write_text("""
import re
import sys
for line in sys.stdin:
    line = line.strip().upper()
    if not line:
        continue
    found = re.fullmatch(r"([+-]?[0-9]+(?:[.][0-9]+)?) *([CF])", line)
    if not found:
        print("invalid")
    elif found[2] == "C":
        print(f"{float(found[1]) * 9 / 5 + 32:.1f} F")
    else:
        print(f"{(float(found[1]) - 32) * 5 / 9:.1f} C")
""")
''',
        wrong={
            "lower case refused": (".strip().upper()", ".strip()"),
            "a space required": (") *([CF])", ") ([CF])"),
            "the factor upside down": ("* 9 / 5 + 32", "* 5 / 9 + 32"),
            "empty lines invalid": ("        continue", '        print("invalid")\n        continue'),
        },
    ),
    Task(
        name="page-ranges",
        text="Write /results/pages.py: its arguments are page numbers in any order, some more than once, and it prints them once each, ascending, "
        "separated by commas, with two or more consecutive pages written as a range. `python pages.py 7 3 1 2 8 12 3` prints `1-3,7-8,12`.",
        files=_nothing,
        check=prints(
            "pages.py",
            [
                (("7", "3", "1", "2", "8", "12", "3"), "", "1-3,7-8,12"),
                (("5",), "", "5"),
                (("10", "9", "100", "11", "2"), "", "2,9-11,100"),
                (("4", "4", "6", "8", "4"), "", "4,6,8"),
                (("20", "22", "21", "19"), "", "19-22"),
            ],
        ),
        reference='''
(RESULTS / "pages.py").write_text("""
import sys
runs = []
for page in sorted({int(each) for each in sys.argv[1:]}):
    if runs and runs[-1][1] == page - 1:
        runs[-1][1] = page
    else:
        runs.append([page, page])
print(",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs))
""")
''',
        wrong={
            "sorted as text": (
                "sorted({int(each) for each in sys.argv[1:]})",
                "map(int, sorted(set(sys.argv[1:])))",
            ),
            "repetitions kept": (
                "sorted({int(each) for each in sys.argv[1:]})",
                "sorted(map(int, sys.argv[1:]))",
            ),
            "ranges from three on": (
                "if low == high",
                "if low == high else f'{low},{high}' if low + 1 == high",
            ),
            "not sorted": (
                "sorted({int(each) for each in sys.argv[1:]})",
                "dict.fromkeys(map(int, sys.argv[1:]))",
            ),
        },
    ),
]

PLOTS = [
    Task(
        name="age-groups",
        text="Draw a bar chart of how many members in /data/members.csv are under 18, 18 to 34, 35 to 54, and 55 or older, in this order from left to "
        "right, with gaps between the bars, all of them in the green #008000 on white, no legend, the axis from zero. Save it as /results/ages.png.",
        files=_members,
        check=bars("ages.png", [68, 78, 82, 32], colour=(0, 128, 0)),
        reference="""
count = [0, 0, 0, 0]
for row in rows("members.csv"):
    count[sum(int(row["age"]) >= limit for limit in (18, 35, 55))] += 1
draw_bars(RESULTS / "ages.png", count, colour=(0, 128, 0))
""",
        wrong={
            "limits in the group below": (">= limit", "> limit"),
            "by size": (", count, colour", ", sorted(count), colour"),
            "one group missing": ("(18, 35, 55)", "(18, 35, 99)"),
            "another colour": ("(0, 128, 0)", "(31, 119, 180)"),
        },
    ),
    Task(
        name="tree-scatter",
        text="Make a scatter plot of the trees of the orchard Hill in /data/trees.csv: age in years to the right, height in metres upwards, one pure red "
        "(#ff0000) dot for each tree on white, no line between them and no legend. Save it as /results/hill.png.",
        files=_trees,
        check=dots("hill.png", HILL),
        reference="""
points = [(float(row["age_years"]), float(row["height_m"])) for row in rows("trees.csv") if row["orchard"] == "Hill"]
draw_dots(RESULTS / "hill.png", points)
""",
        wrong={
            "all orchards": (' if row["orchard"] == "Hill"', ""),
            "another orchard": ('"Hill"', '"Brook"'),
            "axes swapped": (
                '(float(row["age_years"]), float(row["height_m"]))',
                '(float(row["height_m"]), float(row["age_years"]))',
            ),
            "a tree left out": ("points)", "points[1:])"),
        },
    ),
]

FILES = [
    Task(
        name="project-hours",
        text="/data/hours.csv says who worked how long for which project. Write /results/matrix.csv: a row for each person with the column person, then a "
        "column for each project, named as the project is, with the hours that the person worked for it in all, and 0 where there are none.",
        files=_hours,
        check=csv_file("matrix.csv", HOURS),
        reference="""
total, projects = {}, set()
for row in rows("hours.csv"):
    own = total.setdefault(row["person"], {})
    own[row["project"]] = own.get(row["project"], 0) + float(row["hours"])
    projects.add(row["project"])
with (RESULTS / "matrix.csv").open("w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["person", *sorted(projects)])
    for person, own in sorted(total.items()):
        writer.writerow([person, *(own.get(project, 0) for project in sorted(projects))])
""",
        wrong={
            "empty cells": ("own.get(project, 0)", 'own.get(project, "")'),
            "days counted": ('float(row["hours"])', "1"),
            "the last entry": ('own.get(row["project"], 0) + ', ""),
            "a row for each entry": ('row["person"], {}', 'row["person"] + row["day"], {}'),
        },
    ),
    Task(
        name="letters-to",
        text="The folder /data/letters has scanned letters; each begins with lines that say from whom it is, to whom, and of which day. Copy those "
        "to Hanna Weiss, unchanged, into the folder /results/hanna, each named by its date: 2023-01-31.txt for one of 31 January 2023.",
        files=_letters,
        check=_to_hanna,
        reference="""
(RESULTS / "hanna").mkdir()
for path in sorted((DATA / "letters").iterdir()):
    text = path.read_text()
    if "To: Hanna Weiss" in text:
        day = text.split("Date: ")[1].split()[0]
        (RESULTS / "hanna" / f"{day}.txt").write_text(text)
""",
        wrong={
            "whoever names her": ('"To: Hanna Weiss"', '"Hanna Weiss"'),
            "letters from her": ('"To: Hanna Weiss"', '"From: Hanna Weiss"'),
            "names kept": ('f"{day}.txt"', "path.name"),
            "the head left out": ("write_text(text)", 'write_text(text.split("\\n\\n")[1])'),
        },
    ),
]
