"""Clean tables: two columns at once, averages as a limit, ages, the clock of twelve hours, two files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta

from tests.eval.checks import all_of, figure, first_named
from tests.eval.data import Draw, table
from tests.eval.task import Task

DISTRICTS = {
    **{"Ashcombe": 21_480, "Bellhaven": 9_350, "Carrow": 14_725},
    **{"Dunlin": 6_945, "Elmstead": 17_310, "Foxley": 11_260},
}
"""District -> inhabitants."""


def _coffee() -> Mapping[str, bytes]:
    draw = Draw(301)
    rows = []
    for number in range(260):
        roast = draw.pick(["dark", "dark", "dark", "medium", "medium", "light", "light"])
        grind = draw.pick(["whole beans", "filter", "espresso"])
        most = 34 if (roast, grind) == ("light", "filter") else 9 if roast == "light" else 19
        rows.append((700 + number, roast, grind, 1 + draw.below(most), draw.pick([250, 500, 1000])))
    rows[120] = (820, "medium", "espresso", 65, 250)
    return {"coffee.csv": table("sale roast grind bags grams_per_bag", rows)}


def _hikes() -> Mapping[str, bytes]:
    draw = Draw(302)
    rows = []
    for number in range(95):
        length = 4 + draw.below(90) / 10 if draw.below(4) else 15 + draw.below(140) / 10
        ascent = 20 * draw.below(60) + round(length) * 10
        rows.append((f"Tour {number + 1}", draw.pick(["Alps", "Jura", "Vosges"]), f"{length:.1f}", ascent))
    return {"hikes.csv": table("hike mountains kilometres ascent_m", rows)}


def _pets() -> Mapping[str, bytes]:
    draw = Draw(303)
    rows = []
    for number in range(180):
        species = draw.pick(["dog", "dog", "cat", "rabbit"])
        rows.append((f"C{4100 + number}", species, draw.day("2009-03-01", 5400)))
    rows[60] = ("C4160", "dog", date(2016, 9, 1))
    return {"pets.csv": table("chip species born", rows)}


def _pool() -> Mapping[str, bytes]:
    draw = Draw(304)
    moments = sorted(
        datetime.fromisoformat(f"{draw.day('2024-06-01', 92)}T07:00") + timedelta(minutes=draw.below(60 * 14))
        for _ in range(640)
    )
    rows = []
    for moment in moments:
        written = f"{moment.month}/{moment.day}/{moment.year} {moment.hour % 12 or 12}:{moment:%M %p}"
        rows.append((written, draw.pick(["adult", "adult", "child", "senior"])))
    return {"pool.csv": table("entered ticket", rows)}


def _games() -> Mapping[str, bytes]:
    draw = Draw(305)
    games = [
        (
            f"G{number:02}",
            f"{draw.pick(['Castles', 'Trains', 'Islands', 'Foxes'])} {number}",
            draw.cents(9, 70),
        )
        for number in range(1, 81)
    ]
    plays = sorted(
        (draw.day("2023-01-01", 600), f"G{1 + draw.below(80):02}", 2 + draw.below(5)) for _ in range(95)
    )
    return {
        "games.csv": table("game_id title price", games),
        "plays.csv": table("day game_id players", plays),
    }


def _practices() -> Mapping[str, bytes]:
    draw = Draw(306)
    rows = []
    for number in range(96):
        district = draw.pick([*DISTRICTS, *DISTRICTS, "Ashcombe", "Ashcombe", "Elmstead"])
        field = draw.pick(["dentistry", "dentistry", "dentistry", "general", "general", "skin"])
        rows.append((f"Practice {number + 1}", district, field, 1 + draw.below(4)))
    return {
        "districts.csv": table("district inhabitants", DISTRICTS.items()),
        "practices.csv": table("practice district field doctors", rows),
    }


TABLES = [
    Task(
        name="coffee-pairs",
        text="Of which combination of roast and grind were the most bags sold according to /data/coffee.csv, "
        "and how many bags?",
        files=_coffee,
        check=all_of(
            first_named("light", "dark", "medium"),
            first_named("filter", "whole beans", "espresso"),
            figure(505),
        ),
        reference="""
bags = {}
for row in rows("coffee.csv"):
    pair = row["roast"], row["grind"]
    bags[pair] = bags.get(pair, 0) + int(row["bags"])
best = max(bags, key=bags.get)
print(f"{best[0].title()} roast, {best[1]}: {bags[best]} bags")
""",
        wrong={
            "sales counted": ('int(row["bags"])', "1"),
            "the largest sale": (
                'bags.get(pair, 0) + int(row["bags"])',
                'max(bags.get(pair, 0), int(row["bags"]))',
            ),
            "the best roast alone": (
                "best = max(bags, key=bags.get)",
                "best = max(bags, key=lambda pair: sum(bags[one] for one in bags if one[0] == pair[0]))",
            ),
            "by weight": ('int(row["bags"])', 'int(row["bags"]) * int(row["grams_per_bag"])'),
        },
    ),
    Task(
        name="long-hikes",
        text="How many of the hikes in /data/hikes.csv are longer than the average of all of them, and how "
        "many metres of ascent do these longer ones have in all?",
        files=_hikes,
        check=all_of(figure(35), figure(25_310)),
        reference="""
hikes = rows("hikes.csv")
average = sum(float(row["kilometres"]) for row in hikes) / len(hikes)
longer = [row for row in hikes if float(row["kilometres"]) > average]
print(f'{len(longer)} hikes, with {sum(int(row["ascent_m"]) for row in longer):,} metres of ascent')
""",
        wrong={
            "the median": (
                'sum(float(row["kilometres"]) for row in hikes) / len(hikes)',
                'sorted(float(row["kilometres"]) for row in hikes)[len(hikes) // 2]',
            ),
            "the shorter ones": ("> average", "< average"),
            "the ascent of all": ("for row in longer)", "for row in hikes)"),
            "more ascent than average": (
                "> average]",
                '> average and int(row["ascent_m"]) > 600]',
            ),
        },
    ),
]

DATES = [
    Task(
        name="old-dogs",
        text="How many of the dogs in /data/pets.csv were at least 8 years old on 1 September 2024?",
        files=_pets,
        check=figure(40),
        reference="""
old = [row for row in rows("pets.csv") if row["species"] == "dog" and row["born"] <= "2016-09-01"]
print(f"{len(old)} dogs")
""",
        wrong={
            "birthdays on that day left out": ('<= "2016-09-01"', '< "2016-09-01"'),
            "years subtracted": ('row["born"] <= "2016-09-01"', '2024 - int(row["born"][:4]) >= 8'),
            "every animal": ('row["species"] == "dog" and ', ""),
            "nine years": ("2016-09-01", "2015-09-01"),
            "the younger ones": ("<=", ">"),
        },
    ),
    Task(
        name="pool-evenings",
        text="/data/pool.csv says when each visitor of a swimming pool came in, as 7/14/2024 5:30 PM (month "
        "first). How many came on a Saturday or Sunday at 5 PM or later?",
        files=_pool,
        check=figure(62),
        reference="""
count = 0
for row in rows("pool.csv"):
    entered = datetime.datetime.strptime(row["entered"], "%m/%d/%Y %I:%M %p")
    if entered.weekday() >= 5 and entered.hour >= 17:
        count += 1
print(count, "visitors")
""",
        wrong={
            "AM and PM ignored": ("entered.hour >= 17", "entered.hour % 12 >= 5"),
            "12 PM as midnight": ("entered.hour >= 17", "(entered.hour >= 17 or entered.hour == 12)"),
            "every day": ("entered.weekday() >= 5 and ", ""),
            "Sundays only": ("weekday() >= 5", "weekday() >= 6"),
            "from Friday": ("weekday() >= 5", "weekday() >= 4"),
            "after 6 PM": (">= 17", ">= 18"),
        },
    ),
]

JOINS = [
    Task(
        name="never-played",
        text="How many of the games in /data/games.csv that cost more than 30 euros have never been played, "
        "going by /data/plays.csv, and what did they cost together?",
        files=_games,
        check=all_of(figure(15), figure(716.29)),
        reference="""
played = {row["game_id"] for row in rows("plays.csv")}
unused = [row for row in rows("games.csv") if row["game_id"] not in played and float(row["price"]) > 30]
print(f'{len(unused)} games that cost {sum(float(row["price"]) for row in unused):.2f} euros')
""",
        wrong={
            "those that were played": ("not in played", "in played"),
            "cheap ones too": (' and float(row["price"]) > 30', ""),
            "played or not": ('row["game_id"] not in played and ', ""),
            "plays by two ignored": (
                'for row in rows("plays.csv")}',
                'for row in rows("plays.csv") if int(row["players"]) > 2}',
            ),
        },
    ),
    Task(
        name="dentists",
        text="In which district of /data/districts.csv are there the most inhabitants per dentist (a doctor "
        "of the field dentistry in /data/practices.csv, where a practice may have several), and how many "
        "inhabitants are that? Two decimals.",
        files=_practices,
        check=all_of(
            first_named("Dunlin", *(name for name in DISTRICTS if name != "Dunlin")),
            figure(1736.25),
        ),
        reference="""
dentists = {}
for row in rows("practices.csv"):
    if row["field"] == "dentistry":
        dentists[row["district"]] = dentists.get(row["district"], 0) + int(row["doctors"])
each = {row["district"]: int(row["inhabitants"]) / dentists[row["district"]] for row in rows("districts.csv")}
most = max(each, key=each.get)
print(f"{most}, with {each[most]:.2f} inhabitants per dentist")
""",
        wrong={
            "practices counted": ('int(row["doctors"])', "1"),
            "every doctor": ('if row["field"] == "dentistry"', "if True"),
            "the most inhabitants": ("max(each, key=each.get)", '"Ashcombe"'),
            "the fewest": ("max(each", "min(each"),
        },
    ),
]
