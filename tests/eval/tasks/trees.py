"""Questions over JSON: nested records, lines of events, trees."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.eval.checks import all_of, figure, on_day
from tests.eval.data import Draw
from tests.eval.task import Task


def _orders() -> Mapping[str, bytes]:
    draw = Draw(51)
    orders = [
        {
            "id": number + 1,
            "status": draw.pick(["shipped", "pending", "returned"]),
            "customer": {"name": f"C{draw.below(30)}", "country": draw.pick(["NO", "DK", "SE"])},
            "items": [
                {"sku": f"K{draw.below(40)}", "quantity": draw.below(4) + 1, "price": draw.cents(3, 60)}
                for _ in range(draw.below(4) + 1)
            ],
        }
        for number in range(120)
    ]
    return {"orders.json": json.dumps({"orders": orders}).encode()}


def _events() -> Mapping[str, bytes]:
    draw = Draw(52)
    events = [
        {
            "user": f"u{draw.below(210):03}",
            "event": draw.pick(["view", "view", "cart", "purchase"]),
            "at": f"{draw.day('2024-06-01', 30)}T10:00:00",
        }
        for _ in range(700)
    ]
    return {"events.jsonl": "".join(json.dumps(event) + "\n" for event in events).encode()}


def _company() -> Mapping[str, bytes]:
    draw = Draw(53)

    def unit(name: str, below: list[dict[str, Any]]) -> dict[str, Any]:
        people = [
            {"name": f"P{draw.below(9000)}", "salary": 30_000 + draw.below(60_000)}
            for _ in range(draw.below(4) + 2)
        ]
        return {"name": name, "people": people, "units": below}

    engineering = unit(
        "Engineering", [unit("Platform", [unit("Storage", []), unit("Network", [])]), unit("Apps", [])]
    )
    company = unit("Company", [unit("Sales", [unit("Export", [])]), engineering, unit("Finance", [])])
    return {"company.json": json.dumps(company, indent=1).encode()}


def _weather() -> Mapping[str, bytes]:
    draw = Draw(54)
    days = {}
    for number in range(60):
        day = f"2024-{number // 30 + 7:02}-{number % 30 + 1:02}"
        days[day] = {
            "readings": [{"hour": hour, "celsius": (120 + draw.below(100)) / 10} for hour in range(0, 24, 3)]
        }
    days["2024-07-17"]["readings"][5]["celsius"] = 33.4
    days["2024-07-17"]["readings"] = [
        {**each, "celsius": max(each["celsius"], 24.1)} for each in days["2024-07-17"]["readings"]
    ]
    days["2024-08-09"]["readings"][1]["celsius"] = 4.3
    days["2024-08-09"]["readings"][6]["celsius"] = 26.7
    return {"weather.json": json.dumps(days).encode()}


TASKS = [
    Task(
        name="nested-orders",
        text="What is the total value (quantity times price) of the shipped orders to Denmark (DK) in /data/orders.json?",
        files=_orders,
        check=figure(1663.16),
        reference="""
total = 0
for order in json.loads((DATA / "orders.json").read_text())["orders"]:
    if order["status"] == "shipped" and order["customer"]["country"] == "DK":
        total += sum(item["quantity"] * item["price"] for item in order["items"])
print(f"{total:.2f}")
""",
        wrong={
            "every status": ('order["status"] == "shipped" and ', ""),
            "every country": (' and order["customer"]["country"] == "DK"', ""),
            "quantity forgotten": ('item["quantity"] * ', ""),
            "first item only": ('in order["items"]', 'in order["items"][:1]'),
        },
    ),
    Task(
        name="distinct-users",
        text="/data/events.jsonl has one event a line. How many different users have put something in the cart but never made a purchase?",
        files=_events,
        check=figure(54),
        reference="""
did = {"view": set(), "cart": set(), "purchase": set()}
for line in (DATA / "events.jsonl").read_text().splitlines():
    event = json.loads(line)
    did[event["event"]].add(event["user"])
print(len(did["cart"] - did["purchase"]), "users")
""",
        wrong={
            "with a purchase as well": ('did["cart"] - did', 'did["cart"] & did'),
            "all with a cart": (' - did["purchase"]', ""),
            "those who only looked": ('did["cart"] - did["purchase"]', 'did["view"] - did["purchase"]'),
        },
    ),
    Task(
        name="unit-tree",
        text="/data/company.json is a tree of units. What do the salaries of Engineering with all units below it add up to, and how many "
        "people are that?",
        files=_company,
        check=all_of(figure(1_362_283), figure(23)),
        reference="""
def people(unit):
    return unit["people"] + [person for below in unit["units"] for person in people(below)]
engineering = next(unit for unit in json.loads((DATA / "company.json").read_text())["units"] if unit["name"] == "Engineering")
salaries = [person["salary"] for person in people(engineering)]
print(f"{sum(salaries):,} for {len(salaries)} people")
""",
        wrong={
            "the unit alone": ("in people(engineering)", 'in engineering["people"]'),
            "one level below": (
                "in people(engineering)",
                'in engineering["people"] + [one for unit in engineering["units"] for one in unit["people"]]',
            ),
            "another unit": ('"Engineering")', '"Sales")'),
        },
    ),
    Task(
        name="widest-day",
        text="On which day of /data/weather.json is the difference between the highest and the lowest reading largest, and how large is it "
        "in degrees?",
        files=_weather,
        check=all_of(on_day("2024-08-09"), figure(22.4)),
        reference="""
span = {}
for day, record in json.loads((DATA / "weather.json").read_text()).items():
    values = [each["celsius"] for each in record["readings"]]
    span[day] = max(values) - min(values)
best = max(span, key=span.get)
print(f"{best}: {span[best]:.1f} degrees")
""",
        wrong={
            "the hottest day": ("max(values) - min(values)", "max(values)"),
            "from first to last": ("max(values) - min(values)", "values[-1] - values[0]"),
            "the smallest": ("best = max(", "best = min("),
        },
    ),
]
