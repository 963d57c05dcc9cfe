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


TASKS = [
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
    ),
    Task(
        name="long-hikes",
        text="How many of the hikes in /data/hikes.csv are longer than the average of all of them, and how "
        "many metres of ascent do these longer ones have in all?",
        files=_hikes,
        check=all_of(figure(35), figure(25_310)),
    ),
    Task(
        name="old-dogs",
        text="How many of the dogs in /data/pets.csv were at least 8 years old on 1 September 2024?",
        files=_pets,
        check=figure(40),
    ),
    Task(
        name="pool-evenings",
        text="/data/pool.csv says when each visitor of a swimming pool came in, as 7/14/2024 5:30 PM (month "
        "first). How many came on a Saturday or Sunday at 5 PM or later?",
        files=_pool,
        check=figure(62),
    ),
    Task(
        name="never-played",
        text="How many of the games in /data/games.csv that cost more than 30 euros have never been played, "
        "going by /data/plays.csv, and what did they cost together?",
        files=_games,
        check=all_of(figure(15), figure(716.29)),
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
    ),
]
