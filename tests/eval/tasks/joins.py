"""Questions that need two or three files."""

from __future__ import annotations

from collections.abc import Mapping

from tests.eval.checks import all_of, figure, first_named
from tests.eval.data import Draw, table
from tests.eval.task import Task

_CITIES = ["Aldham", "Brixby", "Corvale", "Dunmere"]


def _shop() -> Mapping[str, bytes]:
    draw = Draw(31)
    customers = [(100 + number, f"Customer {number}", draw.pick(_CITIES)) for number in range(60)]
    orders = []
    for number in range(400):
        customer = draw.pick(customers)
        status = (
            "cancelled" if customer[2] == "Aldham" and draw.below(2) else draw.pick(["paid", "paid", "open"])
        )
        amount = draw.cents(150, 400) if customer[2] == "Aldham" else draw.cents(20, 240)
        orders.append((number + 1, customer[0], status, amount))
    return {
        "customers.csv": table("id name city", customers),
        "orders.csv": table("order customer_id status amount", orders),
    }


def _members() -> Mapping[str, bytes]:
    draw = Draw(32)
    members = [(number, f"Member {number}") for number in range(1, 91) if draw.below(5)]
    payments = [(f"T{number}", draw.below(110) + 1, draw.cents(5, 80)) for number in range(260)]
    return {
        "members.csv": table("member_id name", members),
        "payments.csv": table("payment member amount", payments),
    }


def _stock() -> Mapping[str, bytes]:
    draw = Draw(33)
    products = [(f"SKU-{number:03}", draw.pick(["garden", "kitchen", "office"])) for number in range(45)]
    prices = [(product[0], draw.cents(2, 70)) for product in products]
    lines = [(draw.below(150) + 1, draw.pick(products)[0], draw.below(6) + 1) for _ in range(360)]
    return {
        "products.csv": table("sku category", products),
        "prices.csv": table("sku price", prices),
        "lines.csv": table("order sku quantity", lines),
    }


def _money() -> Mapping[str, bytes]:
    draw = Draw(34)
    months = [f"2024-{number:02}" for number in range(1, 7)]
    rates = [
        (month, code, (850 + draw.below(300)) / 1000) for month in months for code in ("USD", "GBP", "CHF")
    ]
    payments = [
        (
            number + 1,
            draw.day("2024-01-01", 181),
            draw.pick(["EUR", "USD", "GBP", "CHF"]),
            draw.cents(10, 900),
        )
        for number in range(220)
    ]
    return {
        "rates.csv": table("month currency eur_per_unit", rates),
        "payments.csv": table("id date currency amount", payments),
    }


TASKS = [
    Task(
        name="city-paid",
        text="Customers of which city have spent the most? Count only paid orders. Use /data/customers.csv and /data/orders.csv, and "
        "give the amount.",
        files=_shop,
        check=all_of(first_named("Brixby", "Aldham", "Corvale", "Dunmere"), figure(10_127.59)),
        reference="""
city = {row["id"]: row["city"] for row in rows("customers.csv")}
total = {}
for row in rows("orders.csv"):
    if row["status"] == "paid":
        place = city[row["customer_id"]]
        total[place] = total.get(place, 0) + float(row["amount"])
best = max(total, key=total.get)
print(f"{best}: {total[best]:.2f}")
""",
        wrong={
            "every status": ('row["status"] == "paid"', "True"),
            "only cancelled left out": ('row["status"] == "paid"', 'row["status"] != "cancelled"'),
            "orders counted": ('float(row["amount"])', "1"),
            "the best customer": (
                'city[row["customer_id"]]',
                'row["customer_id"] + city[row["customer_id"]]',
            ),
        },
    ),
    Task(
        name="unmatched",
        text="Some payments in /data/payments.csv belong to no member of /data/members.csv. How many payments are these, and what do "
        "they add up to?",
        files=_members,
        check=all_of(figure(78), figure(3152.36)),
        reference="""
known = {row["member_id"] for row in rows("members.csv")}
lost = [row for row in rows("payments.csv") if row["member"] not in known]
print(len(lost), "payments,", f'{sum(float(row["amount"]) for row in lost):.2f}')
""",
        wrong={
            "those that match": ("not in known", "in known"),
            "members counted": ("len(lost)", 'len({row["member"] for row in lost})'),
            "numbers over the last member": ('row["member"] not in known', 'int(row["member"]) > 90'),
        },
    ),
    Task(
        name="three-tables",
        text="What is the total value (quantity times price) of all order lines for products of the category garden? The files are "
        "/data/lines.csv, /data/products.csv and /data/prices.csv.",
        files=_stock,
        check=figure(13_208.93),
        reference="""
garden = {row["sku"] for row in rows("products.csv") if row["category"] == "garden"}
price = {row["sku"]: float(row["price"]) for row in rows("prices.csv")}
print(f'{sum(int(row["quantity"]) * price[row["sku"]] for row in rows("lines.csv") if row["sku"] in garden):.2f}')
""",
        wrong={
            "quantity forgotten": ('int(row["quantity"]) * ', ""),
            "every category": (' if row["category"] == "garden"', ""),
            "one line a product": (
                'for row in rows("lines.csv")',
                'for row in {row["sku"]: row for row in rows("lines.csv")}.values()',
            ),
        },
    ),
    Task(
        name="currencies",
        text="What do all payments in /data/payments.csv come to in EUR? /data/rates.csv has the value of one unit of each currency in "
        "EUR for each month; take the month of the payment. Two decimals.",
        files=_money,
        check=figure(96_970.45, within=0.3),
        reference="""
rate = {(row["month"], row["currency"]): float(row["eur_per_unit"]) for row in rows("rates.csv")}
total = 0
for row in rows("payments.csv"):
    total += float(row["amount"]) * (1 if row["currency"] == "EUR" else rate[row["date"][:7], row["currency"]])
print(f"{total:.2f} EUR")
""",
        wrong={
            "not converted": ('1 if row["currency"] == "EUR" else ', "1 if True else "),
            "euros left out": ('1 if row["currency"] == "EUR" else', '0 if row["currency"] == "EUR" else'),
            "the last month's rate": ('row["date"][:7]', '"2024-06"'),
            "divided": ('float(row["amount"]) * (', 'float(row["amount"]) / ('),
        },
    ),
]
