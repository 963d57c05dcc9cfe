"""Questions about time: one month of one year, weekdays, days before months, offsets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from tests.eval.checks import all_of, figure, first_named
from tests.eval.data import Draw, table
from tests.eval.task import Task


def _takings() -> Mapping[str, bytes]:
    draw = Draw(21)
    rows = sorted(
        (draw.day("2023-01-01", 1000), draw.pick(["till 1", "till 2"]), draw.cents(5, 300))
        for _ in range(700)
    )
    return {"takings.csv": table("date till amount", rows)}


def _visits() -> Mapping[str, bytes]:
    draw = Draw(22)
    rows = []
    for number in range(203):
        day = draw.day("2024-01-01", 1) + timedelta(days=number)
        rows.append((day, draw.below(60) + (95 if day.weekday() == 3 else 80)))
    rows[50] = (rows[50][0], 400)
    return {"visits.csv": table("day visitors", rows)}


def _bookings() -> Mapping[str, bytes]:
    draw = Draw(23)
    rows = [
        (f"B{number:03}", draw.day("2023-01-01", 900).strftime("%d/%m/%Y"), draw.below(12) + 1)
        for number in range(500)
    ]
    return {"bookings.csv": table("booking arrival nights", rows)}


def _tickets() -> Mapping[str, bytes]:
    draw = Draw(24)
    rows = []
    for number in range(160):
        opened = f"{draw.day('2024-05-01', 20)}T{draw.below(12):02}:{draw.below(60):02}:00+02:00"
        closed = (
            f"{draw.day('2024-05-22', 9)}T{draw.below(24):02}:{draw.below(60):02}:00Z"
            if draw.below(6)
            else ""
        )
        rows.append((number + 1, draw.pick(["low", "high", "high"]), opened, closed))
    return {"tickets.csv": table("ticket priority opened closed", rows)}


TASKS = [
    Task(
        name="month-total",
        text="How much was taken in March 2024 according to /data/takings.csv?",
        files=_takings,
        check=figure(2966.13),
        reference="""
print(f'{sum(float(row["amount"]) for row in rows("takings.csv") if row["date"].startswith("2024-03")):.2f}')
""",
        wrong={
            "a date equal to a month": ('row["date"].startswith("2024-03")', 'row["date"] == "2024-03-01"'),
            "March of every year": ('row["date"].startswith("2024-03")', 'row["date"][5:7] == "03"'),
            "all of 2024": ("2024-03", "2024"),
            "until the 30th": (
                '.startswith("2024-03")',
                '.startswith("2024-03") and row["date"] < "2024-03-30"',
            ),
        },
    ),
    Task(
        name="weekday",
        text="On which day of the week does /data/visits.csv count the most visitors altogether, and how many?",
        files=_visits,
        check=all_of(
            first_named(
                "Thursdays?", "Mondays?", "Tuesdays?", "Wednesdays?", "Fridays?", "Saturdays?", "Sundays?"
            ),
            figure(3830),
        ),
        reference="""
total = {}
for row in rows("visits.csv"):
    name = datetime.date.fromisoformat(row["day"]).strftime("%A")
    total[name] = total.get(name, 0) + int(row["visitors"])
best = max(total, key=total.get)
print(f"{best}, with {total[best]} visitors")
""",
        wrong={
            "the busiest single day": (
                'total.get(name, 0) + int(row["visitors"])',
                'max(total.get(name, 0), int(row["visitors"]))',
            ),
            "one day off": (
                'datetime.date.fromisoformat(row["day"])',
                '(datetime.date.fromisoformat(row["day"]) + datetime.timedelta(1))',
            ),
            "days counted": ('int(row["visitors"])', "1"),
        },
    ),
    Task(
        name="day-first",
        text="/data/bookings.csv gives arrivals as day/month/year. How many nights are booked in all with an arrival in the "
        "second quarter of 2024?",
        files=_bookings,
        check=figure(377),
        reference="""
nights = 0
for row in rows("bookings.csv"):
    day, month, year = map(int, row["arrival"].split("/"))
    if year == 2024 and 4 <= month <= 6:
        nights += int(row["nights"])
print(nights, "nights")
""",
        wrong={
            "month first": ("day, month, year =", "month, day, year ="),
            "every year": ("year == 2024 and ", ""),
            "bookings counted": ('int(row["nights"])', "1"),
            "without June": ("<= 6", "< 6"),
        },
    ),
    Task(
        name="offsets",
        text="For the closed tickets of high priority in /data/tickets.csv: how many hours passed on average between opened and "
        "closed? Two decimals. The times carry different UTC offsets.",
        files=_tickets,
        check=figure(353.98),
        reference="""
hours = []
for row in rows("tickets.csv"):
    if row["priority"] == "high" and row["closed"]:
        opened, closed = (datetime.datetime.fromisoformat(row[name]) for name in ("opened", "closed"))
        hours.append((closed - opened).total_seconds() / 3600)
print(f"{sum(hours) / len(hours):.2f} hours")
""",
        wrong={
            "offsets ignored": ("fromisoformat(row[name])", "fromisoformat(row[name][:19])"),
            "every priority": ('row["priority"] == "high" and ', ""),
            "in days": ("/ 3600", "/ 86400"),
            "the seconds of a day only": (".total_seconds()", ".seconds"),
        },
    ),
]
