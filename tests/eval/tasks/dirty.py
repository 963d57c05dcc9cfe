"""Questions over data with gaps, duplicates, mixed spellings and impossible values."""

from __future__ import annotations

from collections.abc import Mapping

from tests.eval.checks import all_of, figure, first_named
from tests.eval.data import Draw, table
from tests.eval.task import Task


def _sales() -> Mapping[str, bytes]:
    draw = Draw(41)
    rows = []
    for sale in range(240):
        amount = draw.cents(3, 2500)
        written = f"${amount:,.2f}" if draw.below(3) == 0 else f"{amount:.2f}"
        rows.append(
            (9000 + sale, draw.pick(["web", "shop"]), draw.pick(["", "n/a", written, *[written] * 12]))
        )
    rows += [rows[draw.below(240)] for _ in range(17)]
    return {"sales.csv": table("sale channel amount", rows)}


def _donors() -> Mapping[str, bytes]:
    draw = Draw(42)
    places = ["Oakridge", "Millbrook", "Fairview", "Lakewood", "Stonebury"]
    rows = []
    for number in range(210):
        place = draw.pick([*places, "Millbrook"])
        if place == "Millbrook":
            written = draw.pick(["MILLBROOK", "millbrook", "Millbrook", " Millbrook ", "Millbrook  "])
        else:
            written = draw.pick([place, place, place.upper()])
        rows.append((number + 1, written, draw.below(90) + 10))
    return {"donors.csv": table("donor town euros", rows)}


def _items() -> Mapping[str, bytes]:
    draw = Draw(43)
    rows = [(f"I-{draw.below(80):02}", draw.day("2024-01-01", 200), draw.below(500)) for _ in range(230)]
    # One row for an item and a day.
    kept = {(row[0], row[1]): row for row in reversed(rows)}
    return {"stock.csv": table("item updated in_stock", reversed(kept.values()))}


def _sensors() -> Mapping[str, bytes]:
    draw = Draw(44)
    rows = []
    for number in range(300):
        value = f"{(draw.below(150) + 120) / 10}"
        rows.append((number + 1, draw.pick(["A", "B", "C"]), draw.pick(["-999", "", *[value] * 10])))
    return {"sensors.csv": table("reading sensor celsius", rows)}


TASKS = [
    Task(
        name="mixed-amounts",
        text="What do the sales in /data/sales.csv add up to? Some rows are in the file twice and count once; amounts that are missing "
        "count as nothing.",
        files=_sales,
        check=figure(278_470.93),
        reference="""
once = {tuple(row.values()): row for row in rows("sales.csv")}.values()
total = 0
for row in once:
    text = row["amount"].replace("$", "").replace(",", "")
    if text not in ("", "n/a"):
        total += float(text)
print(f"{total:,.2f}")
""",
        wrong={
            "duplicates counted": ("in once:", 'in rows("sales.csv"):'),
            "dollar amounts left out": ('("", "n/a")', '("", "n/a") and "$" not in row["amount"]'),
            "thousands left out": ('("", "n/a")', '("", "n/a") and "," not in row["amount"]'),
        },
    ),
    Task(
        name="spellings",
        text="The towns in /data/donors.csv are written in different ways (capitals, spaces). From which town did most euros come, and "
        "how many euros?",
        files=_donors,
        check=all_of(first_named("Millbrook", "Oakridge", "Fairview", "Lakewood", "Stonebury"), figure(3624)),
        reference="""
total = {}
for row in rows("donors.csv"):
    town = row["town"].strip().lower()
    total[town] = total.get(town, 0) + int(row["euros"])
best = max(total, key=total.get)
print(f"{best.title()} with {total[best]} euros")
""",
        wrong={
            "as written": (".strip().lower()", ""),
            "capitals only": (".strip().lower()", ".lower()"),
            "donors counted": ('int(row["euros"])', "1"),
        },
    ),
    Task(
        name="newest-row",
        text="/data/stock.csv holds several rows for most items; the newest by the column updated is the one that is valid. How many "
        "pieces are in stock over all items?",
        files=_items,
        check=figure(20_616),
        reference="""
newest = {}
for row in sorted(rows("stock.csv"), key=lambda row: row["updated"]):
    newest[row["item"]] = int(row["in_stock"])
print(sum(newest.values()), "pieces")
""",
        wrong={
            "every row": ('row["item"]', 'row["item"] + row["updated"]'),
            "the last in the file": (', key=lambda row: row["updated"])', ", key=lambda row: 0)"),
            "the oldest": ('row["updated"])', 'row["updated"], reverse=True)'),
        },
    ),
    Task(
        name="sensor-gaps",
        text="What is the average temperature of sensor B in /data/sensors.csv, to two decimals? -999 means that the sensor failed.",
        files=_sensors,
        check=figure(18.47),
        reference="""
values = [float(row["celsius"]) for row in rows("sensors.csv") if row["sensor"] == "B" and row["celsius"] not in ("", "-999")]
print(f"{sum(values) / len(values):.2f}")
""",
        wrong={
            "failures counted": ('("", "-999")', '("",)'),
            "gaps as zero": (
                'float(row["celsius"]) for row in rows("sensors.csv") if row["sensor"] == "B" and row["celsius"] not in ("", "-999")',
                'float(row["celsius"] or 0) for row in rows("sensors.csv") if row["sensor"] == "B" and row["celsius"] != "-999"',
            ),
            "every sensor": ('row["sensor"] == "B" and ', ""),
        },
    ),
]
