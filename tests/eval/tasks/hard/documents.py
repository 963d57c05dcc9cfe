"""PDF files, read and made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from tests.eval.checks import all_of, figure, numbers_in
from tests.eval.data import Draw, pdf, table
from tests.eval.task import Check, Outcome, Task, Unsolved


def _statement() -> Mapping[str, bytes]:
    draw = Draw(113)
    balance, day = 310_000, datetime(2024, 3, 1)
    pages: list[list[str]] = []
    for number in range(1, 5):
        carried = [] if number == 1 else [f"Brought forward   {balance / 100:,.2f}"]
        page = ["Harbour Bank - account statement", f"March and April 2024, page {number} of 4", "", *carried]
        for _ in range(24):
            day += timedelta(days=draw.below(2))
            payee = draw.pick(["Green Energy", "Greengrocer", "Greengrocer", "Bus company", "Chemist"])
            cents = 250 + draw.below(4200)
            back = payee == "Greengrocer" and draw.below(6) == 0
            balance += cents if back else -cents
            sign, kind = ("+", "refund") if back else ("-", "card payment")
            page.append(f"{day:%d %b %Y}   {payee} {kind}   {sign}{cents / 100:.2f}   {balance / 100:,.2f}")
        page.append(
            f"Closing balance   {balance / 100:,.2f}"
            if number == 4
            else f"Carried forward   {balance / 100:,.2f}"
        )
        pages.append(page)
    return {"statement.pdf": pdf(pages)}


def _rents() -> Mapping[str, bytes]:
    draw = Draw(114)
    rows = []
    for number, tenant in enumerate(
        ("Abbott", "Brandt", "Chavez", "Dubois", "Eriksen", "Fontana", "Gruber", "Hassan", "Ivanov")
    ):
        due = 480 + 15 * draw.below(20)
        owed = 0.0
        for month in range(1, 7):
            paid = draw.pick([due, due, due, due - draw.cents(20, 200)]) + (
                owed if month % 2 == 0 and number % 2 else 0
            )
            owed = round(owed + due - paid, 2)
            rows.append((tenant, f"2024-{month:02}", due, round(paid, 2)))
    return {"rents.csv": table("tenant month due paid", rows)}


def _reminders(owed: Mapping[str, float], others: Sequence[str]) -> Check:
    """The PDF file names who owes, with how much and the sum, and nobody else."""

    def check(outcome: Outcome) -> None:
        outcome.machine.file("reminders.pdf")
        text = outcome.machine.pdf_text("reminders.pdf")
        missing = [name for name in owed if name not in text]
        wrong = [name for name in others if name in text]
        if missing or wrong:
            raise Unsolved(f"reminders.pdf lacks {missing} and names {wrong}")
        found = numbers_in(text)
        for amount in (*owed.values(), sum(owed.values())):
            if not any(abs(each - amount) <= 0.0051 for each in found):
                raise Unsolved(f"{amount:,.2f} is not in reminders.pdf")

    return check


OWED = {
    "Abbott": 34.87,
    "Chavez": 303.45,
    "Eriksen": 268.08,
    "Fontana": 62.87,
    "Gruber": 84.51,
    "Ivanov": 247.41,
}

PDF = [
    Task(
        name="bank-statement",
        text="/data/statement.pdf is a bank statement of several pages. How much was spent at Greengrocer in all, refunds taken off, and how many "
        "card payments were made there?",
        files=_statement,
        check=all_of(figure(644.27), figure(37)),
        reference="""
import re
text = (DATA / "statement.pdf").read_bytes().decode()
found = re.findall(r"Greengrocer ([a-z ]+?) +([+-])([0-9.]+)", text)
paid = [float(amount) for kind, sign, amount in found if kind == "card payment"]
back = [float(amount) for kind, sign, amount in found if kind == "refund"]
print(f"{sum(paid) - sum(back):.2f} in {len(paid)} card payments")
""",
        wrong={
            "refunds not taken off": (" - sum(back)", ""),
            "refunds added": ("- sum(back)", "+ sum(back)"),
            "one page": ("read_bytes().decode()", "read_bytes().decode().split('Carried forward')[0]"),
            "refunds counted": ("{len(paid)}", "{len(found)}"),
        },
    ),
    Task(
        name="pdf-reminders",
        text="/data/rents.csv has the rent that each tenant had to pay and did pay, month by month. Some paid too little in one month and the rest "
        "in another. Make the PDF file /results/reminders.pdf: each tenant who still owes something over all months, with the amount, and at the "
        "end the total of these amounts. Two decimals; nobody else shall be named in it.",
        files=_rents,
        check=_reminders(OWED, ["Brandt", "Dubois", "Hassan"]),
        reference="""
owed = {}
for row in rows("rents.csv"):
    owed[row["tenant"]] = round(owed.get(row["tenant"], 0) + float(row["due"]) - float(row["paid"]), 2)
owed = {tenant: amount for tenant, amount in owed.items() if amount > 0}
lines = [f"{tenant}: {amount:.2f}" for tenant, amount in owed.items()]
make_pdf(RESULTS / "reminders.pdf", [["Rent reminders", *lines, f"Total: {sum(owed.values()):.2f}"]])
""",
        wrong={
            "the last month": ('round(owed.get(row["tenant"], 0) + ', "round("),
            "everyone": ("if amount > 0", ""),
            "what was paid later left out": (
                'float(row["due"]) - float(row["paid"])',
                'max(0, float(row["due"]) - float(row["paid"]))',
            ),
            "no total": (', f"Total: {sum(owed.values()):.2f}"', ""),
        },
    ),
]
