"""Files to write: a table, a JSON summary, cleaned data, one file for each group."""

from __future__ import annotations

from collections.abc import Mapping

from tests.eval.checks import all_of, csv_file, json_file
from tests.eval.data import Draw, table
from tests.eval.task import Check, Outcome, Task, Unsolved


def _trips() -> Mapping[str, bytes]:
    draw = Draw(91)
    rows = sorted(
        (draw.day("2023-10-01", 180), draw.pick(["bike", "bus", "tram"]), draw.cents(1, 20))
        for _ in range(200)
    )
    return {"trips.csv": table("date vehicle cost", rows)}


def _books() -> Mapping[str, bytes]:
    draw = Draw(92)
    rows = [
        (f"Book {number}", draw.pick(["poetry", "novel", "essay"]), draw.below(500) + 60, draw.cents(5, 40))
        for number in range(90)
    ]
    return {"books.csv": table("title genre pages price", rows)}


def _contacts() -> Mapping[str, bytes]:
    rows = [
        ("Ada Lind", " ADA@example.org", "05.03.2024"),
        ("Bo Hart ", "bo@example.org", "2024-02-11"),
        ("ada lind", "ada@example.org ", "05.03.2024"),
        ("Cy Brandt", "Cy.Brandt@Example.org", "17.11.2023"),
        ("Dee Moor", "", "2024-01-30"),
        ("BO HART", "BO@EXAMPLE.ORG", "2024-02-11"),
        ("Eli Voss", "eli@example.org", "01.12.2023"),
        ("Flo Zink", "flo@example.org", "2023-12-24"),
    ]
    return {"contacts.csv": table("name email joined", rows)}


def _staff() -> Mapping[str, bytes]:
    draw = Draw(94)
    names = ["Ann", "Ben", "Cleo", "Dag", "Eve", "Finn", "Gro", "Hal", "Ida", "Jon", "Kit", "Leo"]
    rows = [(name, draw.pick(["stores", "bakery", "office"]), 2000 + draw.below(3000)) for name in names]
    return {"staff.csv": table("name department pay", rows)}


CLEAN = """name,email,joined
Ada Lind,ada@example.org,2024-03-05
Bo Hart,bo@example.org,2024-02-11
Cy Brandt,cy.brandt@example.org,2023-11-17
Eli Voss,eli@example.org,2023-12-01
Flo Zink,flo@example.org,2023-12-24
"""

BY_MONTH = """month,cost
2023-10,186.96
2023-11,246.47
2023-12,188.43
2024-01,153.86
2024-02,161.84
2024-03,230.14
"""
GENRES = {
    "novel": {"books": 26, "pages": 6966, "mean_price": 20.73},
    "essay": {"books": 36, "pages": 10633, "mean_price": 20.99},
    "poetry": {"books": 28, "pages": 9180, "mean_price": 23.69},
}
DEPARTMENTS = {
    "bakery": "name,pay\nCleo,2758\nAnn,2327",
    "office": "name,pay\nLeo,3780\nGro,3634\nFinn,2203",
    "stores": "name,pay\nKit,4936\nBen,4108\nDag,3666\nIda,3639\nHal,3611\nJon,3317\nEve,2128",
}


def _only(*names: str) -> Check:
    """Nothing else is in the folder."""

    def check(outcome: Outcome) -> None:
        there = outcome.machine.names("departments")
        if there != sorted(names):
            raise Unsolved(f"the folder holds {', '.join(there)}")

    return check


TASKS = [
    Task(
        name="write-table",
        text="Write /results/by_month.csv with exactly the columns month (as 2023-10) and cost: the total cost in /data/trips.csv in each month, "
        "without the trips by tram, oldest month first.",
        files=_trips,
        check=csv_file("by_month.csv", BY_MONTH, ordered=True),
        reference="""
total = {}
for row in rows("trips.csv"):
    if row["vehicle"] != "tram":
        month = row["date"][:7]
        total[month] = total.get(month, 0) + float(row["cost"])
lines = [f"{month},{total[month]:.2f}" for month in sorted(total)]
(RESULTS / "by_month.csv").write_text("\\n".join(["month,cost", *lines]))
""",
        wrong={
            "with the trams": ('row["vehicle"] != "tram"', "True"),
            "year lost": ('row["date"][:7]', 'row["date"][5:7]'),
            "another name": ("month,cost", "month,total"),
            "newest first": ("in sorted(total)]", "in sorted(total, reverse=True)]"),
            "trips counted": ('float(row["cost"])', "1"),
        },
    ),
    Task(
        name="write-json",
        text="Write /results/genres.json: an object that has for each genre in /data/books.csv an object with books (how many), pages (the sum) and "
        "mean_price (the average price, rounded to two decimals).",
        files=_books,
        check=json_file("genres.json", GENRES),
        reference="""
genres = {}
for row in rows("books.csv"):
    genre = genres.setdefault(row["genre"], {"books": 0, "pages": 0, "mean_price": 0})
    genre["books"] += 1
    genre["pages"] += int(row["pages"])
    genre["mean_price"] += float(row["price"])
for genre in genres.values():
    genre["mean_price"] = round(genre["mean_price"] / genre["books"], 2)
(RESULTS / "genres.json").write_text(json.dumps(genres))
""",
        wrong={
            "price added up": (' / genre["books"], 2', ", 2"),
            "another key": ('"mean_price": 0}', '"mean_price": 0, "price": 0}'),
            "numbers as text": (
                'round(genre["mean_price"] / genre["books"], 2)',
                'str(round(genre["mean_price"] / genre["books"], 2))',
            ),
        },
    ),
    Task(
        name="clean-table",
        text="Clean /data/contacts.csv and save it as /results/contacts.csv with the same columns: names and e-mail addresses without spaces around "
        "them, e-mail addresses in lower case, names as in Ada Lind, dates as 2024-03-05 (5.3.2024 is day.month.year), rows without an e-mail "
        "address left out, each e-mail address once.",
        files=_contacts,
        check=csv_file("contacts.csv", CLEAN),
        reference="""
clean = {}
for row in rows("contacts.csv"):
    email, joined = row["email"].strip().lower(), row["joined"]
    if "." in joined:
        joined = "-".join(reversed(joined.split(".")))
    if email:
        clean[email] = f'{row["name"].strip().title()},{email},{joined}'
(RESULTS / "contacts.csv").write_text("\\n".join(["name,email,joined", *clean.values()]))
""",
        wrong={
            "month first": (
                '"-".join(reversed(joined.split(".")))',
                'joined[6:] + "-" + joined[:2] + "-" + joined[3:5]',
            ),
            "empty ones kept": ("if email:", "if True:"),
            "capitals kept": (".strip().lower()", ".strip()"),
            "names as written": (".strip().title()", ".strip()"),
        },
    ),
    Task(
        name="split-files",
        text="Split /data/staff.csv by department: one file /results/departments/<department>.csv for each, with the columns name and pay only, the "
        "highest pay first.",
        files=_staff,
        check=all_of(
            *(csv_file(f"departments/{name}.csv", text, ordered=True) for name, text in DEPARTMENTS.items()),
            _only(*(f"{name}.csv" for name in DEPARTMENTS)),
        ),
        reference="""
(RESULTS / "departments").mkdir()
staff = sorted(rows("staff.csv"), key=lambda row: -int(row["pay"]))
for department in {row["department"] for row in staff}:
    lines = [f'{row["name"]},{row["pay"]}' for row in staff if row["department"] == department]
    (RESULTS / "departments" / f"{department}.csv").write_text("\\n".join(["name,pay", *lines]))
""",
        wrong={
            "not sorted": ('-int(row["pay"])', "0"),
            "everybody in each": (' if row["department"] == department', ""),
            "a department missing": ('in {row["department"] for row in staff}', 'in ["stores", "office"]'),
            "in another folder": ('(RESULTS / "departments" / f', "(RESULTS / f"),
        },
    ),
]
