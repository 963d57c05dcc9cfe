"""The tasks of `dev`, one of each kind, for work on prompt and loop."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.eval.checks import all_of, csv_file, figure, first_named, prints
from tests.eval.data import Draw, pdf, table
from tests.eval.plot_checks import bars
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


def _takings() -> Mapping[str, bytes]:
    draw = Draw(21)
    rows = sorted(
        (draw.day("2023-01-01", 1000), draw.pick(["till 1", "till 2"]), draw.cents(5, 300))
        for _ in range(700)
    )
    return {"takings.csv": table("date till amount", rows)}


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


def _nested_orders() -> Mapping[str, bytes]:
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


_PATHS = ["/api/search", "/api/cart", "/api/pay", "/static/app.js"]


def _access() -> Mapping[str, bytes]:
    draw = Draw(61)
    lines = []
    for _ in range(900):
        path = draw.pick([*_PATHS, "/static/app.js", "/api/search"])
        failing = {"/api/pay": ["503", "500", "200"], "/api/search": ["404", "404", "502", "200", "200"]}
        status = draw.pick(failing.get(path, ["200", "200", "200", "304", "404", "500"]))
        when = f"{draw.below(28) + 1:02}/May/2024:{draw.below(24):02}:{draw.below(60):02}:{draw.below(60):02} +0000"
        lines.append(
            f'10.0.{draw.below(4)}.{draw.below(200)} - - [{when}] "GET {path} HTTP/1.1" {status} {draw.below(9000) + 500}\n'
        )
    return {"access.log": "".join(lines).encode()}


def _invoices() -> Mapping[str, bytes]:
    draw = Draw(71)
    files = {}
    for invoice in range(1, 9):
        net = draw.below(90_000) + 10_000
        lines = [
            f"Invoice 2024-{invoice:03}",
            f"Customer: {draw.pick(['Lund Ltd', 'Moss Inc', 'Nyberg AB'])}",
            f"Due: 2024-{3 if invoice % 3 else 4:02}-{draw.below(28) + 1:02}",
            *("", f"Net {net / 100:,.2f}", f"VAT 25% {net / 400:,.2f}", f"Total {net * 1.25 / 100:,.2f}"),
        ]
        files[f"invoices/invoice-{invoice:03}.pdf"] = pdf([lines])
    return files


def _branches() -> Mapping[str, bytes]:
    draw = Draw(81)
    rows = []
    for _ in range(260):
        branch = draw.pick(["Hove", "Arden", "Arden", "Crewe", "Deal", "Deal", "Deal"])
        rows.append((branch, draw.cents(70, 180) if branch == "Hove" else draw.cents(5, 120)))
    return {"branches.csv": table("branch sales", rows)}


def _trips() -> Mapping[str, bytes]:
    draw = Draw(91)
    rows = sorted(
        (draw.day("2023-10-01", 180), draw.pick(["bike", "bus", "tram"]), draw.cents(1, 20))
        for _ in range(200)
    )
    return {"trips.csv": table("date vehicle cost", rows)}


BY_MONTH = """month,cost
2023-10,186.96
2023-11,246.47
2023-12,188.43
2024-01,153.86
2024-02,161.84
2024-03,230.14
"""


TASKS = [
    Task(
        name="region-revenue",
        text="Which region in /data/orders.csv has the highest total revenue (units times unit price), and how much is it?",
        files=_orders,
        check=all_of(first_named("Southbank", "Northgate", "Eastfield", "Westmoor"), figure(31_965.25)),
    ),
    Task(
        name="month-total",
        text="How much was taken in March 2024 according to /data/takings.csv?",
        files=_takings,
        check=figure(2966.13),
    ),
    Task(
        name="city-paid",
        text="Customers of which city have spent the most? Count only paid orders. Use /data/customers.csv and /data/orders.csv, and "
        "give the amount.",
        files=_shop,
        check=all_of(first_named("Brixby", "Aldham", "Corvale", "Dunmere"), figure(10_127.59)),
    ),
    Task(
        name="mixed-amounts",
        text="What do the sales in /data/sales.csv add up to? Some rows are in the file twice and count once; amounts that are missing "
        "count as nothing.",
        files=_sales,
        check=figure(278_470.93),
    ),
    Task(
        name="nested-orders",
        text="What is the total value (quantity times price) of the shipped orders to Denmark (DK) in /data/orders.json?",
        files=_nested_orders,
        check=figure(1663.16),
    ),
    Task(
        name="server-errors",
        text="Which path in /data/access.log has the most answers with a status of 500 or above, and how many are they?",
        files=_access,
        check=all_of(first_named("/api/pay", "/api/search", "/api/cart", "/static/app.js"), figure(99)),
    ),
    Task(
        name="roman",
        text="Write a program /results/roman.py that takes a whole number from 1 to 3999 as its argument and prints it as a Roman numeral "
        "and nothing else. Try it out.",
        check=prints(
            "roman.py",
            [
                (["1994"], "", "MCMXCIV"),
                (["3999"], "", "MMMCMXCIX"),
                (["448"], "", "CDXLVIII"),
                (["5"], "", "V"),
                (["9"], "", "IX"),
            ],
        ),
        reference="""
(RESULTS / "roman.py").write_text('''
import sys
number = int(sys.argv[1])
signs = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),
         (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]
text = ""
for value, sign in signs:
    text += sign * (number // value)
    number %= value
print(text)
''')
print("Done.")
""",
        mistake=('(900, "CM"), ', ""),
    ),
    Task(
        name="pdf-invoices",
        text="What do the totals (VAT included) of the invoices in /data/invoices that are due in March 2024 add up to?",
        files=_invoices,
        check=figure(2981.45, within=0.02),
    ),
    Task(
        name="bar-plot",
        text="Draw a bar chart of the total sales of each branch in /data/branches.csv, branches in alphabetical order from left to right, all bars "
        "pure red (#ff0000) on white, the axis from zero. Save it as /results/branches.png.",
        files=_branches,
        check=bars("branches.png", [5048.37, 2529.9, 6755.71, 4331.81]),
        reference="""
total = {}
for row in rows("branches.csv"):
    total[row["branch"]] = total.get(row["branch"], 0) + float(row["sales"])
draw_bars(RESULTS / "branches.png", [total[name] for name in sorted(total)])
""",
        mistake=('float(row["sales"])', "1"),
    ),
    Task(
        name="write-table",
        text="Write /results/by_month.csv with exactly the columns month (as 2023-10) and cost: the total cost in /data/trips.csv in each month, "
        "without the trips by tram, oldest month first.",
        files=_trips,
        check=csv_file("by_month.csv", BY_MONTH),
        reference="""
total = {}
for row in rows("trips.csv"):
    if row["vehicle"] != "tram":
        month = row["date"][:7]
        total[month] = total.get(month, 0) + float(row["cost"])
lines = [f"{month},{total[month]:.2f}" for month in sorted(total)]
(RESULTS / "by_month.csv").write_text("\\n".join(["month,cost", *lines]))
""",
        mistake=("month,cost", "month,total"),
    ),
]
