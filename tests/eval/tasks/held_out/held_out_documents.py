"""PDF files, read and made."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tests.eval.checks import all_of, figure, first_named, numbers_in
from tests.eval.data import Draw, pdf, table
from tests.eval.task import Outcome, Task, Unsolved

BOARD = ["Ines Falk", "Marek Stone", "Petra Vale", "Owen Reed", "Lotte Brink", "Samir Haddad", "Judith Orr"]
VARIETIES = [
    *("Nantes carrot", "Red globe onion", "Sugar pea", "Black kale", "Lamb lettuce", "Golden beet"),
    *("Broad bean", "White radish", "Winter leek", "Round zucchini", "Sweet basil", "Giant pumpkin"),
    *("Curly parsley", "Cherry tomato", "Long cucumber", "Savoy cabbage", "Red chard", "Early turnip"),
]
ORDERED = {
    **{"Nantes carrot": 4, "Sugar pea": 8, "Black kale": 8, "Lamb lettuce": 2, "Golden beet": 2},
    **{"Broad bean": 8, "Round zucchini": 3, "Giant pumpkin": 3, "Cherry tomato": 5},
    **{"Savoy cabbage": 2, "Early turnip": 7},
}
"""From Greenleaf: variety -> packets."""
TOTAL = 148.37


def _minutes() -> Mapping[str, bytes]:
    draw = Draw(321)
    files = {}
    for number in range(14):
        month, year = number % 12 + 1, 2023 + number // 12
        here = [name for name in BOARD if draw.below(10) < (8 if name == "Judith Orr" else 6)]
        away = [name for name in BOARD if name not in here]
        lines = [
            f"Garden Club, meeting of {year}-{month:02}-{3 + draw.below(20):02}",
            *("", f"Present: {', '.join(here)}", f"Excused: {', '.join(away) or 'nobody'}", ""),
            f"1. Report of the treasurer: {draw.below(4000) + 300} euros on the account.",
            f"2. {draw.pick(BOARD)} will ask for offers for the {draw.pick(['fence', 'pump', 'shed'])}.",
            *(f"3. Next meeting at the house of {draw.pick(BOARD)}.", "", f"Written by {draw.pick(here)}"),
        ]
        files[f"minutes/{year}-{month:02}.pdf"] = pdf([lines])
    return files


def _seeds() -> Mapping[str, bytes]:
    draw = Draw(322)
    rows = [
        (
            variety,
            draw.pick(["Greenleaf", "Hartmann", "Greenleaf", "Sow Well"]),
            1 + draw.below(9),
            draw.cents(1, 5),
        )
        for variety in VARIETIES
    ]
    return {"seeds.csv": table("variety supplier packets price_per_packet", rows)}


def _order(outcome: Outcome) -> None:
    """The PDF file has the title, what is ordered from Greenleaf and nothing else, and the total."""
    outcome.machine.file("order.pdf")
    text = re.sub(r"\s+", " ", outcome.machine.pdf_text("order.pdf"))
    if "seed order" not in text.lower():
        raise Unsolved("order.pdf lacks the title")
    for variety in VARIETIES:
        if (variety.lower() in text.lower()) != (variety in ORDERED):
            raise Unsolved(f"order.pdf {'lacks' if variety in ORDERED else 'names'} {variety}")
    found = numbers_in(text)
    missing = [f"{number:,}" for number in (*ORDERED.values(), TOTAL) if not _among(number, found)]
    if missing:
        raise Unsolved(f"order.pdf lacks {', '.join(missing)}")


def _among(number: float, found: list[float]) -> bool:
    return any(abs(each - number) <= 0.0051 for each in found)


TASKS = [
    Task(
        name="meeting-minutes",
        text="The folder /data/minutes has the minutes of a club's meetings as PDF files. Who was present at "
        "the most meetings, and at how many of them?",
        files=_minutes,
        check=all_of(
            first_named("Judith Orr", *(name for name in BOARD if name != "Judith Orr")), figure(12)
        ),
    ),
    Task(
        name="seed-order",
        text="Make a PDF /results/order.pdf with the title Seed order: what we need from the supplier "
        "Greenleaf according to /data/seeds.csv, each variety with the number of packets, and at the end "
        "the total price of all these packets.",
        files=_seeds,
        check=_order,
        reference="""
wanted = [row for row in rows("seeds.csv") if row["supplier"] == "Greenleaf"]
total = sum(int(row["packets"]) * float(row["price_per_packet"]) for row in wanted)
lines = [f'{row["variety"]}: {row["packets"]} packets' for row in wanted]
make_pdf(RESULTS / "order.pdf", [["Seed order", *lines, f"Total: {total:.2f}"]])
print("See /results/order.pdf")
""",
        mistake=('int(row["packets"]) * ', ""),
    ),
]
