"""Questions over one clean CSV file: group and add up, medians, shares, decimal commas."""

from __future__ import annotations

from collections.abc import Mapping

from tests.eval.checks import all_of, figure, first_named, named
from tests.eval.data import Draw, table
from tests.eval.task import Task


def _orders() -> Mapping[str, bytes]:
    draw = Draw(11)
    rows = []
    for order in range(1, 321):
        region = draw.pick(["Northgate", "Eastfield", "Eastfield", "Southbank", "Westmoor", "Westmoor"])
        units = draw.below(9) + 1 if region != "Southbank" else draw.below(9) + 7
        rows.append((5000 + order, region, draw.pick(["lamp", "desk", "chair"]), units, draw.cents(4, 90)))
    rows[40] = (5041, "Northgate", "desk", 40, 95.5)
    return {"orders.csv": table("order_id region product units unit_price", rows)}


def _parcels() -> Mapping[str, bytes]:
    draw = Draw(12)
    rows = [
        (
            f"P{number}",
            draw.pick(["Swift", "Hermod", "Pelican"]),
            draw.cents(1, 9) if draw.below(5) else draw.cents(20, 60),
        )
        for number in range(280)
    ]
    return {"parcels.csv": table("parcel carrier weight_kg", rows)}


def _invoices() -> Mapping[str, bytes]:
    draw = Draw(13)
    customers = ["Abel", "Birk", "Cato", "Dorn", "Ekko", "Falk", "Gram", "Holt"]
    rows = []
    for number in range(250):
        customer = customers[min(draw.below(8), draw.below(8))]
        rows.append((number + 1, customer, draw.cents(10, 400)))
    rows[77] = (78, "Holt", 990.0)
    return {"invoices.csv": table("invoice customer amount", rows)}


def _ledger() -> Mapping[str, bytes]:
    draw = Draw(14)
    rows = []
    for number in range(150):
        cents = draw.below(400_000) + 1000
        whole = f"{cents // 100:,}".replace(",", ".")
        rows.append((number + 1, draw.pick(["Miete", "Lohn", "Material"]), f"{whole},{cents % 100:02}"))
    return {"konten.csv": table("nr art betrag", rows, separator=";")}


TASKS = [
    Task(
        name="region-revenue",
        text="Which region in /data/orders.csv has the highest total revenue (units times unit price), and how much is it?",
        files=_orders,
        check=all_of(first_named("Southbank", "Northgate", "Eastfield", "Westmoor"), figure(31_965.25)),
        reference="""
total = {}
for row in rows("orders.csv"):
    total[row["region"]] = total.get(row["region"], 0) + int(row["units"]) * float(row["unit_price"])
best = max(total, key=total.get)
print(f"{best} has the highest revenue: {total[best]:,.2f}.")
""",
        wrong={
            "largest single order": (
                'total.get(row["region"], 0) + int(row["units"])',
                'max(0, 0) + int(row["units"])',
            ),
            "largest order's region": ("max(total, key=total.get)", '"Northgate"'),
            "prices only": ('int(row["units"]) * ', ""),
            "units only": (' * float(row["unit_price"])', ""),
        },
    ),
    Task(
        name="median-weight",
        text="/data/parcels.csv: what is the median weight in kg of the parcels that Pelican carried, and how many are they?",
        files=_parcels,
        check=all_of(figure(6.525), figure(104)),
        reference="""
import statistics
weights = [float(row["weight_kg"]) for row in rows("parcels.csv") if row["carrier"] == "Pelican"]
print(f"{len(weights)} parcels, median weight {statistics.median(weights):.3f} kg")
""",
        wrong={
            "mean": ("statistics.median(", "statistics.mean("),
            "all carriers": (' if row["carrier"] == "Pelican"', ""),
            "another carrier": ("Pelican", "Swift"),
        },
    ),
    Task(
        name="top-three-share",
        text="What percentage of the whole amount in /data/invoices.csv comes from the three customers with the highest "
        "totals? Give two decimals, and name the three.",
        files=_invoices,
        check=all_of(figure(56.15), named("Abel", "Birk", "Cato")),
        reference="""
total = {}
for row in rows("invoices.csv"):
    total[row["customer"]] = total.get(row["customer"], 0) + float(row["amount"])
best = sorted(total, key=total.get, reverse=True)[:3]
print(", ".join(best), f"together have {100 * sum(total[name] for name in best) / sum(total.values()):.2f} %")
""",
        wrong={
            "three invoices": (
                'total[row["customer"]] = total.get(row["customer"], 0) +',
                'total[row["invoice"]] =',
            ),
            "number of invoices": ('float(row["amount"])', "1"),
            "the best two": ("[:3]", "[:2]"),
        },
    ),
    Task(
        name="decimal-comma",
        text="Add up the column betrag in /data/konten.csv for the rows whose art is Material. What is the sum?",
        files=_ledger,
        check=figure(96_771.65),
        reference="""
total = 0
for line in (DATA / "konten.csv").read_text().splitlines()[1:]:
    number, kind, amount = line.split(";")
    if kind == "Material":
        total += float(amount.replace(".", "").replace(",", "."))
print(f"The sum is {total:.2f}")
""",
        wrong={
            "decimal commas dropped": ('replace(",", ".")', 'replace(",", "")'),
            "every kind": ('if kind == "Material"', "if True"),
            "thousands left out": ('if kind == "Material"', 'if kind == "Material" and "." not in amount'),
        },
    ),
]
