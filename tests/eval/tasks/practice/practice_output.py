"""Results that are asked for: programs, plots, files."""

from __future__ import annotations

from collections.abc import Mapping

from tests.eval.checks import all_of, csv_file, figure, prints
from tests.eval.data import Draw, table
from tests.eval.plot_checks import bars, line_through
from tests.eval.task import Outcome, Task, Unsolved

SAVED = [120, 80, -45, 150, 60, -210, 95, 140, -30, 75, 20, -160]
"""January to December."""
IN_ALL = [sum(SAVED[: number + 1]) for number in range(12)]
SEEN = [97, 63, 54, 35, 21, 10]
"""Sparrow, great tit, blackbird, robin, magpie, wren."""
PROFITS = """item,profit
globe,38.73
vase,34.5
suitcase,31.82
typewriter,23.85
candlestick,23.77
tea set,21.15
record player,18.86
lamp,18.18
doll,9.2
teddy,2.44
mirror,-1.97
camera,-6.51
stool,-10.69
atlas,-11.42
"""


def _sightings() -> Mapping[str, bytes]:
    draw = Draw(231)
    species = [*["blackbird"] * 5, *["great tit"] * 7, *["magpie"] * 2, *["robin"] * 4, *["sparrow"] * 9]
    rows = sorted(
        (draw.day("2024-01-01", 90), draw.pick([*species, "wren"]), draw.pick(["garden", "park"]))
        for _ in range(280)
    )
    return {"sightings.csv": table("day species place", rows)}


def _savings() -> Mapping[str, bytes]:
    rows = [(f"2024-{number:02}", amount) for number, amount in enumerate(SAVED, 1)]
    return {"savings.csv": table("month saved", rows)}


def _flea_market() -> Mapping[str, bytes]:
    draw = Draw(233)
    items = [
        *("lamp", "mirror", "chess set", "kettle", "atlas", "vase", "radio", "stool", "clock", "tea set"),
        *("record player", "camera", "suitcase", "globe", "doll", "typewriter", "teddy", "candlestick"),
    ]
    rows = []
    for item in items:
        paid = draw.cents(1, 25)
        sold = "" if draw.below(4) == 0 else f"{draw.cents(2, 50):.2f}"
        rows.append((item, f"{paid:.2f}", sold))
    return {"flea_market.csv": table("item bought_for sold_for", rows)}


def _photos() -> Mapping[str, bytes]:
    draw = Draw(234)
    files = {}
    for number in range(26):
        name = f"IMG_{draw.day('2021-03-01', 1300):%Y%m%d}_{2012 + number}.jpg"
        files[f"photos/{name}"] = b"\xff\xd8\xff\xe0" + bytes(draw.below(256) for _ in range(60))
    return files


def _by_year(outcome: Outcome) -> None:
    """Each photo is in the folder of its year, unchanged, and nothing else is there."""
    right: dict[str, dict[str, bytes]] = {}
    for path, content in _photos().items():
        name = path.removeprefix("photos/")
        right.setdefault(name[4:8], {})[name] = content
    years = outcome.machine.names("photos")
    if years != sorted(right):
        raise Unsolved(f"/results/photos has {', '.join(years) or 'nothing'}")
    for year, photos in right.items():
        made = outcome.machine.names(f"photos/{year}")
        if made != sorted(photos):
            raise Unsolved(f"photos/{year} has {', '.join(made) or 'nothing'}")
        for name, content in photos.items():
            if outcome.machine.file(f"photos/{year}/{name}") != content:
                raise Unsolved(f"photos/{year}/{name} is not the photo")


TASKS = [
    Task(
        name="duration",
        text="Write a program /results/duration.py that takes a number of seconds as its argument and prints it as hours, minutes and seconds, "
        "nothing else: 3665 becomes 1:01:05. Minutes and seconds always have two digits.",
        check=prints(
            "duration.py",
            [
                (("3665",), "", "1:01:05"),
                (("59",), "", "0:00:59"),
                (("0",), "", "0:00:00"),
                (("86400",), "", "24:00:00"),
                (("3599",), "", "0:59:59"),
                (("400271",), "", "111:11:11"),
            ],
        ),
        reference='''
(RESULTS / "duration.py").write_text("""
import sys
seconds = int(sys.argv[1])
print(f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}")
""")
''',
        mistake=("{seconds % 60:02}", "{seconds % 60}"),
    ),
    Task(
        name="letter-shift",
        text="Write a program /results/shift.py that takes a whole number as its argument and prints the text from standard input with each letter moved "
        "on by so many places in the alphabet, a after z. Capitals stay capitals, and all else stays as it is.",
        check=prints(
            "shift.py",
            [
                (("3",), "Hello, xyz!\n", "Khoor, abc!"),
                (("13",), "Uryyb Jbeyq 42\nmnop\n", "Hello World 42\nzabc"),
                (("25",), "A bad Zebra", "Z azc Ydaqz"),
                (("0",), "It stays.\n", "It stays."),
            ],
        ),
        reference='''
(RESULTS / "shift.py").write_text("""
import sys
moved = ""
for sign in sys.stdin.read():
    if "a" <= sign <= "z":
        sign = chr((ord(sign) - ord("a") + int(sys.argv[1])) % 26 + ord("a"))
    elif "A" <= sign <= "Z":
        sign = chr((ord(sign) - ord("A") + int(sys.argv[1])) % 26 + ord("A"))
    moved += sign
print(moved, end="")
""")
''',
        mistake=(" % 26 + ord", " + ord"),
    ),
    Task(
        name="bird-count",
        text="Draw a bar chart of how many birds of each species are in /data/sightings.csv (one a row), the most frequent on the left, all bars in "
        "#ff8000 on white, the axis from zero, no legend. Save it as /results/birds.png.",
        files=_sightings,
        check=bars("birds.png", SEEN, colour=(255, 128, 0)),
        reference="""
count = {}
for row in rows("sightings.csv"):
    count[row["species"]] = count.get(row["species"], 0) + 1
draw_bars(RESULTS / "birds.png", sorted(count.values(), reverse=True), colour=(255, 128, 0))
""",
        mistake=(", reverse=True", ""),
    ),
    Task(
        name="running-total",
        text="/data/savings.csv says what I saved in each month of 2024, with a minus what I took out. Draw the sum up to each month as one pure red "
        "(#ff0000) line without markers or legend and save it as /results/savings.png. How much is it at the end?",
        files=_savings,
        check=all_of(figure(295), line_through("savings.png", IN_ALL)),
        reference="""
total, line = 0, []
for row in rows("savings.csv"):
    total += int(row["saved"])
    line.append(total)
draw_line(RESULTS / "savings.png", line)
print(f"At the end of the year it is {total}.")
""",
        mistake=('"savings.png", line)', '"savings.png", sorted(line))'),
    ),
    Task(
        name="flea-market",
        text="Write /results/profit.csv with the columns item and profit: for each thing in /data/flea_market.csv that was sold (sold_for is not "
        "empty), sold_for minus bought_for, the largest profit on top.",
        files=_flea_market,
        check=csv_file("profit.csv", PROFITS),
        reference="""
profit = {}
for row in rows("flea_market.csv"):
    if row["sold_for"]:
        profit[row["item"]] = round(float(row["sold_for"]) - float(row["bought_for"]), 2)
with (RESULTS / "profit.csv").open("w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["item", "profit"])
    writer.writerows(sorted(profit.items(), key=lambda pair: pair[1], reverse=True))
""",
        mistake=(", reverse=True", ""),
    ),
    Task(
        name="photo-years",
        text="Copy my photos from /data/photos into a folder for each year, without changing them: IMG_20230514_0012.jpg was taken on 14 May 2023, "
        "so it belongs into /results/photos/2023, and so on.",
        files=_photos,
        check=_by_year,
        reference="""
for path in sorted((DATA / "photos").iterdir()):
    folder = RESULTS / "photos" / path.name[4:8]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / path.name).write_bytes(path.read_bytes())
print("See /results/photos")
""",
        mistake=("[4:8]", "[13:17]"),
    ),
]
