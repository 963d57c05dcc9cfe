"""PDF files, read and made."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tests.eval.checks import all_of, figure, first_named
from tests.eval.data import Draw, pdf, table
from tests.eval.task import Outcome, Task, Unsolved

RECIPES = [
    *(("Lentil Curry", True, 40), ("Fish Pie", False, 55), ("Tomato Tart", True, 50)),
    *(("Ham Toast", False, 10), ("Pumpkin Soup", True, 45), ("Chicken Wings", False, 70)),
    *(("Pea Risotto", True, 35), ("Tuna Wraps", False, 15), ("Vegetable Chilli", True, 60)),
    *(("Beef Stew", False, 150), ("Spinach Gnocchi", True, 30), ("Bean Tacos", True, 25)),
    *(("Sausage Rolls", False, 40), ("Mushroom Pasta", True, 28), ("Cauliflower Bake", True, 65)),
]
"""Title, without meat and fish, minutes."""

FIRST = ["Nora", "Emil", "Tilda", "Anton", "Greta", "Pavel", "Selma", "Jonah", "Mira", "Oskar", "Vera"]
LAST = ["Blick", "Carver", "Dahl", "Engel", "Frost", "Hale", "Irving", "Kern"]
BORN_IN_MAY = {
    "Vera Blick": 1967,
    "Greta Kern": 2001,
    "Selma Hale": 1981,
    "Jonah Blick": 1972,
    "Tilda Dahl": 1963,
}


def _cookbook() -> Mapping[str, bytes]:
    draw = Draw(221)
    pages = []
    for title, vegetarian, minutes in RECIPES:
        foods = [draw.pick(["onion", "flour", "butter", "cream", "stock", "garlic"]) for _ in range(4)]
        pages.append(
            [
                *(title, "", f"Serves {2 + draw.below(5)}", f"Time: {minutes} minutes"),
                *(f"Vegetarian: {'yes' if vegetarian else 'no'}", "", "Ingredients"),
                *(f"{10 + 5 * draw.below(60)} g {food}" for food in dict.fromkeys(foods)),
            ]
        )
    return {"cookbook.pdf": pdf(pages)}


def _birthdays() -> Mapping[str, bytes]:
    draw = Draw(222)
    rows = [
        (f"{FIRST[number % 11]} {LAST[number * 3 % 8]}", draw.day("1948-01-01", 20_000))
        for number in range(60)
    ]
    return {"birthdays.csv": table("name born", rows)}


def _names_of_may(outcome: Outcome) -> None:
    """The PDF file has the title, who was born in May with the year, and nobody else."""
    outcome.machine.file("may.pdf")
    text = re.sub(r"\s+", " ", outcome.machine.pdf_text("may.pdf"))
    if "birthdays in may" not in text.lower():
        raise Unsolved("may.pdf lacks the title")
    for first in FIRST:
        for last in LAST:
            name = f"{first} {last}"
            if (name in text) != (name in BORN_IN_MAY):
                raise Unsolved(f"may.pdf {'names' if name in text else 'lacks'} {name}")
    missing = [str(year) for year in BORN_IN_MAY.values() if str(year) not in text]
    if missing:
        raise Unsolved(f"may.pdf lacks {', '.join(missing)}")


TASKS = [
    Task(
        name="cookbook",
        text="Each page of /data/cookbook.pdf is a recipe. How many of them are vegetarian, and which of these takes the least time?",
        files=_cookbook,
        check=all_of(
            figure(9), first_named("Bean Tacos", *(title for title, *_ in RECIPES if title != "Bean Tacos"))
        ),
    ),
    Task(
        name="may-birthdays",
        text="Make a PDF /results/may.pdf with the title Birthdays in May: the name and the date of birth of everyone in /data/birthdays.csv who was born "
        "in May of any year.",
        files=_birthdays,
        check=_names_of_may,
        reference="""
people = [row for row in rows("birthdays.csv") if row["born"][5:7] == "05"]
make_pdf(RESULTS / "may.pdf", [["Birthdays in May", *(f'{row["name"]}  {row["born"]}' for row in people)]])
print("See /results/may.pdf")
""",
        mistake=(' if row["born"][5:7] == "05"', ""),
    ),
]
