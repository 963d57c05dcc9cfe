"""Clean tables: rows and columns compared, days, several files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta

from tests.eval.checks import all_of, figure, first_named, month, on_day
from tests.eval.data import Draw, table
from tests.eval.task import Task

SEASON = range(4, 10)
"""The months in which the kiosk is open."""


def _flats() -> Mapping[str, bytes]:
    draw = Draw(201)
    rows = []
    for number in range(1, 141):
        metres, cents = 24 + draw.below(90), 950 + draw.below(900)
        district = draw.pick(["Old Town", "Harbour", "Park Side"])
        rows.append((f"F{number:03}", district, 1 + metres // 28, metres, metres * cents // 100))
    rows[30] = ("F031", "Harbour", 2, 41, 262)
    rows[70] = ("F071", "Old Town", 4, 98, 799)
    columns = "flat district rooms square_metres rent"
    return {"flats.tsv": table(columns, rows, separator="\t")}


def _recycling() -> Mapping[str, bytes]:
    draw = Draw(202)
    rows = [
        (
            f"H{number + 1}",
            draw.pick(["Mill Lane", "Church Road", "Green Hill"]),
            draw.below(58),
            10 + draw.below(50),
            draw.below(21) if draw.below(5) else 0,
            6 + draw.below(33),
        )
        for number in range(160)
    ]
    rows[90] = ("H91", "Mill Lane", 14, 22, 0, 310)
    return {"recycling.csv": table("household street glass paper metal plastic", rows)}


def _tool_loans() -> Mapping[str, bytes]:
    draw = Draw(203)
    rows = []
    for number in range(150):
        lent = date(2023, 9, 10) + timedelta(days=2 * number + draw.below(2))
        length = draw.pick([14, 15, 16 + draw.below(12), *[1 + draw.below(13)] * 5])
        back = lent + timedelta(days=63 if number == 41 else length)
        tool = draw.pick(["drill", "ladder", "saw", "sander", "tile cutter"])
        rows.append((tool, f"M{draw.below(40):02}", *(f"{day.day} {day:%b %Y}" for day in (lent, back))))
    return {"tool_loans.csv": table("tool member lent_on returned_on", rows)}


def _nights() -> Mapping[str, bytes]:
    draw = Draw(204)
    usual = (-2, 0, 2, 5, 10, 13, 15, 15, 11, 6, 1, -1)
    rows = []
    for number in range(458):
        day = date(2023, 10, 1) + timedelta(days=number)
        rows.append((day, (usual[day.month - 1] * 10 + draw.below(110) - 55) / 10))
    rows = [(day, 0.0 if day == date(2024, 5, 2) else celsius) for day, celsius in rows]
    return {"nights.csv": table("night minimum", reversed(rows))}


def _kiosk() -> Mapping[str, bytes]:
    draw = Draw(205)
    files = {}
    for number in SEASON:
        rows = []
        for day in range(1, 29):
            for item in ("coffee", "ice cream", "waffle"):
                more = {
                    "coffee": 70 - 8 * number if number < 7 else 12 * number - 40,
                    "ice cream": 0,
                    "waffle": 5,
                }
                warm = {6: 8, 7: 14, 8: 9}.get(number, 0) if item == "ice cream" else 0
                if draw.below(4):
                    sold = 1 + draw.below(30) + more[item] + warm
                    rows.append((f"2024-{number:02}-{day:02}", item, sold))
        files[f"kiosk/2024-{number:02}.csv"] = table("day item portions", rows)
    return files


def _budget() -> Mapping[str, bytes]:
    draw = Draw(206)
    planned = [
        *(("food", 5200), ("transport", 2400), ("repairs", 1600), ("clothes", 1700)),
        *(("gifts", 350), ("leisure", 2100)),
    ]
    parts = [*["food"] * 6, *["transport", "repairs", "leisure"] * 3, "clothes", "clothes", "gifts"]
    rows = sorted((draw.day("2024-01-01", 366), draw.pick(parts), draw.cents(5, 120)) for _ in range(220))
    return {
        "budget.csv": table("category planned", planned),
        "spending.csv": table("day category amount", rows),
    }


TASKS = [
    Task(
        name="flat-per-metre",
        text="Which flat of at least 60 square metres in /data/flats.tsv has the lowest rent per square metre, and how much is that? Two decimals.",
        files=_flats,
        check=all_of(first_named("F071", r"F\d\d\d"), figure(8.15)),
    ),
    Task(
        name="recycling",
        text="What do the households in /data/recycling.csv hand in most of, in kg: glass, paper, metal or plastic? And how many of them hand in more "
        "than 120 kg of all four together?",
        files=_recycling,
        check=all_of(first_named("paper", "glass", "metal", "plastic"), figure(24)),
    ),
    Task(
        name="tool-loans",
        text="How many of the loans in /data/tool_loans.csv lasted longer than 14 days, and how many days did the longest last?",
        files=_tool_loans,
        check=all_of(figure(32), figure(63)),
    ),
    Task(
        name="last-frost",
        text="When was the last night with frost (a minimum below 0) in the first half of 2024 according to /data/nights.csv, and how many such nights "
        "were there in these six months?",
        files=_nights,
        check=all_of(on_day("2024-04-28"), figure(53)),
    ),
    Task(
        name="kiosk-season",
        text="The folder /data/kiosk has a file for each month of the season. How many portions of ice cream were sold in all, and in which month the "
        "most?",
        files=_kiosk,
        check=all_of(
            figure(2619),
            first_named(month(2024, 7), *(month(2024, number) for number in SEASON if number != 7)),
        ),
    ),
    Task(
        name="over-budget",
        text="Going by /data/spending.csv, which category of /data/budget.csv is over its budget by the most euros, and by how much?",
        files=_budget,
        check=all_of(
            first_named("repairs", "food", "transport", "clothes", "gifts", "leisure"), figure(1232.54)
        ),
    ),
]
