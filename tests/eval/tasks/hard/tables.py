"""Clean tables: groups and shares, dates, joins."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta

from tests.eval.checks import all_of, figure, first_named
from tests.eval.data import Draw, table
from tests.eval.task import Task

DISHES = [
    f"{one} {two}"
    for one in ("Harvest", "Coastal", "Smoked", "Winter", "Garden")
    for two in ("Stew", "Bowl", "Bake", "Salad", "Soup")
]


def _loans() -> Mapping[str, bytes]:
    draw = Draw(101)
    rows = [
        (
            number + 1,
            f"R{100 + min(draw.below(70), draw.below(90))}",
            draw.pick(["novel", "atlas", "comic", "guide"]),
            draw.day("2022-01-01", 730),
        )
        for number in range(170)
    ]
    return {"loans.csv": table("loan reader kind taken_on", rows)}


def _crossings() -> Mapping[str, bytes]:
    draw = Draw(102)
    rows = []
    for number in range(240):
        ferry = draw.pick(["Gannet", "Gannet", "Gannet", "Petrel", "Osprey", "Fulmar"])
        seats = draw.pick([40, 120, 260])
        full = {"Gannet": 50, "Petrel": 95 if seats == 40 else 58, "Osprey": 62, "Fulmar": 35}[ferry]
        rows.append((f"X{number:03}", ferry, seats, seats * (full + draw.below(5)) // 100))
    return {"crossings.csv": table("crossing ferry seats passengers", rows)}


def _donations() -> Mapping[str, bytes]:
    draw = Draw(103)
    rows = []
    for donor in range(1, 61):
        day = draw.day("2023-01-01", 60)
        for _ in range(2 + draw.below(5)):
            rows.append((draw.below(10_000), f"D{donor:02}", day))
            day += timedelta(
                days=draw.pick([56, 56, 60 + draw.below(90), 70 + draw.below(90), 38 + draw.below(30)])
            )
    return {"donations.csv": table("donor donated_on", [row[1:] for row in sorted(rows)])}


def _shifts() -> Mapping[str, bytes]:
    draw = Draw(104)
    rows = []
    for number in range(140):
        guard = draw.pick(["Irma", "Irma", "Irma", "Irma", "Jonas", "Kofi", "Kofi", "Kofi", "Lena"])
        late = draw.below(5) < {"Irma": 1, "Jonas": 2, "Kofi": 4, "Lena": 2}[guard]
        begin = (20 * 60 if late else 6 * 60) + 15 * draw.below(12)
        end = (begin + (8 if late else 3) * 60 + 15 * draw.below(9)) % (24 * 60)
        times = [f"{each // 60:02}:{each % 60:02}" for each in (begin, end)]
        rows.append((date(2024, 5, 1) + timedelta(days=number // 3), guard, *times))
    return {"shifts.csv": table("day guard begin end", rows)}


def _electricity() -> Mapping[str, bytes]:
    draw = Draw(105)
    prices = [("2023-04-15", 0.3391), ("2022-11-01", 0.2875), ("2023-09-01", 0.2649), ("2023-12-01", 0.3012)]
    first = date(2023, 1, 1)
    rows = [
        (first + timedelta(days=number), meter, round(4 + draw.below(160) / 10, 1))
        for number in range(365)
        for meter in ("kitchen", "workshop")
        if draw.below(10) or number in (104, 243, 334)
    ]
    return {
        "tariffs.csv": table("valid_from price_per_kwh", prices),
        "readings.csv": table("day meter kwh", rows),
    }


def _kitchen() -> Mapping[str, bytes]:
    draw = Draw(106)
    plain = ["rice", "beans", "leek", "carrot", "salmon", "egg", "butter", "cream", "potato", "apple", "corn"]
    ingredients = [(name, "no", draw.cents(2, 24)) for name in plain]
    ingredients += [
        (name, "yes", draw.cents(1, 4)) for name in ("wheat flour", "barley", "couscous", "rye bread")
    ]
    rows = []
    for dish in DISHES:
        chosen = dict.fromkeys(draw.pick(ingredients)[0] for _ in range(3 + draw.below(4)))
        rows += [(dish, name, 40 + 5 * draw.below(50)) for name in chosen]
    return {
        "recipes.csv": table("dish ingredient grams", rows),
        "ingredients.csv": table("ingredient gluten price_per_kg", sorted(ingredients)),
    }


TABLES = [
    Task(
        name="loyal-readers",
        text="/data/loans.csv is the list of loans of a library. How many readers borrowed something in 2022 and in 2023 as well, "
        "and how many did so in 2022 but not in 2023?",
        files=_loans,
        check=all_of(figure(34), figure(12)),
        reference="""
years = {}
for row in rows("loans.csv"):
    years.setdefault(row["reader"], []).append(row["taken_on"][:4])
both = [reader for reader, own in years.items() if "2022" in own and "2023" in own]
gone = [reader for reader, own in years.items() if "2023" not in own]
print(f"{len(both)} readers borrowed in both years, {len(gone)} in 2022 only.")
""",
        wrong={
            "either year": ('"2022" in own and "2023" in own', '"2022" in own or "2023" in own'),
            "readers with two loans": ('"2022" in own and "2023" in own', "len(own) > 1"),
            "only the later year": ('"2023" not in own', '"2022" not in own'),
            "loans counted": ("len(both)", "sum(len(years[reader]) for reader in both)"),
        },
    ),
    Task(
        name="ferry-seats",
        text="Which ferry in /data/crossings.csv is used best: the passengers of all its crossings as a percentage of the seats of all its "
        "crossings? Name it and the percentage with two decimals.",
        files=_crossings,
        check=all_of(first_named("Osprey", "Gannet", "Petrel", "Fulmar"), figure(63.17)),
        reference="""
seats, people = {}, {}
for row in rows("crossings.csv"):
    seats[row["ferry"]] = seats.get(row["ferry"], 0) + int(row["seats"])
    people[row["ferry"]] = people.get(row["ferry"], 0) + int(row["passengers"])
share = {ferry: 100 * people[ferry] / seats[ferry] for ferry in seats}
best = max(share, key=share.get)
print(f"{best}: {share[best]:.2f} %")
""",
        wrong={
            "average of the crossings": (
                'people.get(row["ferry"], 0) + int(row["passengers"])',
                'people.get(row["ferry"], 0) + int(row["passengers"]) / int(row["seats"])\n'
                '    seats[row["ferry"]] += 1 - int(row["seats"])',
            ),
            "most passengers": ("key=share.get", "key=people.get"),
            "all ferries together": ("{share[best]", "{100 * sum(people.values()) / sum(seats.values())"),
        },
    ),
]

DATES = [
    Task(
        name="short-gaps",
        text="Whoever gives blood must wait: at least 56 days have to lie between two donations. How many donors in /data/donations.csv have "
        "donated again after fewer than 56 days, once or more often, and how many days is the shortest gap of all?",
        files=_donations,
        check=all_of(figure(19), figure(38)),
        reference="""
days = {}
for row in rows("donations.csv"):
    days.setdefault(row["donor"], []).append(datetime.date.fromisoformat(row["donated_on"]))
gaps = {}
for donor, own in days.items():
    own.sort()
    gaps[donor] = [(later - day).days for day, later in zip(own, own[1:])]
early = [donor for donor, own in gaps.items() if any(gap < 56 for gap in own)]
print(f"{len(early)} donors; the shortest gap is {min(min(own) for own in gaps.values())} days")
""",
        wrong={
            "exactly 56 days too": ("gap < 56", "gap <= 56"),
            "donations counted": ("len(early)", "sum(gap < 56 for own in gaps.values() for gap in own)"),
            "order of the file": ("own.sort()", "pass"),
            "the first gap only": ("for gap in own)", "for gap in own[:1])"),
        },
    ),
    Task(
        name="night-shifts",
        text="/data/shifts.csv says when the guards of a museum worked. A shift whose end is before its begin ended on the next day. "
        "Which guard worked the most hours in all, and how many, as a decimal number?",
        files=_shifts,
        check=all_of(first_named("Kofi", "Irma", "Jonas", "Lena"), figure(360)),
        reference="""
def minutes(time):
    return int(time[:2]) * 60 + int(time[3:])
total = {}
for row in rows("shifts.csv"):
    worked = minutes(row["end"]) - minutes(row["begin"])
    if worked < 0:
        worked += 24 * 60
    total[row["guard"]] = total.get(row["guard"], 0) + worked
best = max(total, key=total.get)
print(f"{best} worked {total[best] / 60:.2f} hours")
""",
        wrong={
            "begin and end swapped at night": ("worked += 24 * 60", "worked = -worked"),
            "nights left out": ("worked += 24 * 60", "continue"),
            "shifts counted": ('total.get(row["guard"], 0) + worked', 'total.get(row["guard"], 0) + 60'),
            "negative hours": ("if worked < 0", "if False"),
        },
    ),
]

JOINS = [
    Task(
        name="tariff-cost",
        text="/data/readings.csv has the kWh that two meters counted on each day, and /data/tariffs.csv the price per kWh from a day on, "
        "that day included, until another price begins. What does the electricity of the meter workshop cost altogether? Round only the sum, "
        "to two decimals.",
        files=_electricity,
        check=figure(1217.96),
        reference="""
tariffs = sorted((row["valid_from"], float(row["price_per_kwh"])) for row in rows("tariffs.csv"))
cost = 0
for row in rows("readings.csv"):
    if row["meter"] == "workshop":
        price = [price for day, price in tariffs if day <= row["day"]][-1]
        cost += price * float(row["kwh"])
print(f"{cost:,.2f}")
""",
        wrong={
            "a day too late": ("day <= row", "day < row"),
            "tariffs in the order of the file": ("sorted((", "list(("),
            "both meters": ('if row["meter"] == "workshop"', "if True"),
            "one price": ("[-1]", "[0]"),
        },
    ),
    Task(
        name="gluten-free",
        text="/data/recipes.csv lists what goes into each dish, /data/ingredients.csv which ingredients contain gluten and what a kilogram costs. "
        "How many dishes are free of gluten, and which of these has the cheapest ingredients in all?",
        files=_kitchen,
        check=all_of(
            figure(9), first_named("Harvest Bake", *(dish for dish in DISHES if dish != "Harvest Bake"))
        ),
        reference="""
known = {row["ingredient"]: row for row in rows("ingredients.csv")}
cost, gluten = {}, {}
for row in rows("recipes.csv"):
    dish, own = row["dish"], known[row["ingredient"]]
    cost[dish] = cost.get(dish, 0) + int(row["grams"]) / 1000 * float(own["price_per_kg"])
    gluten.setdefault(dish, []).append(own["gluten"] == "yes")
free = [dish for dish in cost if not any(gluten[dish])]
print(f"{len(free)} dishes; the cheapest is {min(free, key=cost.get)}")
""",
        wrong={
            "one ingredient without": ("not any(", "not all("),
            "prices without amounts": ('int(row["grams"]) / 1000 * ', ""),
            "cheapest of all": ("min(free", "min(cost"),
            "ingredients counted": ("len(free)", "sum(own['gluten'] == 'no' for own in known.values())"),
        },
    ),
]
