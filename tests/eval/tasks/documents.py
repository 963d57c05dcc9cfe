"""PDF files: read several, find a page, read a list, make one."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tests.eval.checks import all_of, figure, first_named, numbers_in
from tests.eval.data import Draw, pdf, table
from tests.eval.task import Check, Outcome, Task, Unsolved


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


def _report() -> Mapping[str, bytes]:
    draw = Draw(72)
    names = ["Harrier", "Merlin", "Osprey", "Kestrel", "Goshawk", "Buzzard"]
    pages = [["Annual report", "Contents", *(f"Project {name}" for name in names)]]
    for page in range(2, 15):
        name = names[(page - 2) // 2] if page < 14 else "Appendix"
        lines = [f"Project {name}, part {page % 2 + 1}", "The work went on as planned."]
        if page % 2:
            lines += [
                f"Last year's budget: {draw.below(900_000) + 9000:,} EUR",
                f"Approved budget: {draw.below(900_000) + 9000:,} EUR",
            ]
        pages.append(lines)
    return {"report.pdf": pdf(pages)}


def _prices() -> Mapping[str, bytes]:
    draw = Draw(73)
    pages = []
    for page in range(3):
        lines = [f"Price list, page {page + 1}", "Article  Group  Price"]
        for line in range(18):
            group = draw.pick(["timber", "steel", "glass"])
            top = {"timber": 300, "steel": 700, "glass": 450}[group]
            lines.append(f"A{page}{line:02}  {group}  {draw.cents(20, top):.2f}")
        pages.append(lines)
    return {"prices.pdf": pdf(pages)}


def _harvest() -> Mapping[str, bytes]:
    draw = Draw(74)
    rows = [
        (draw.pick(["Upper Field", "Long Acre", "Mill Meadow"]), draw.below(4) + 2021, draw.below(900) + 50)
        for _ in range(60)
    ]
    return {"harvest.csv": table("field year kilograms", rows)}


def _report_made(*figures: int) -> Check:
    def check(outcome: Outcome) -> None:
        if outcome.machine.file("harvest.pdf")[:5] != b"%PDF-":
            raise Unsolved("harvest.pdf is no PDF")
        text = re.sub(r"\s+", " ", outcome.machine.pdf_text("harvest.pdf"))
        missing = [
            word
            for word in ("Harvest", "Upper Field", "Long Acre", "Mill Meadow")
            if word.lower() not in text.lower()
        ]
        missing += [f"{figure:,}" for figure in figures if figure not in numbers_in(text)]
        if missing:
            raise Unsolved(f"harvest.pdf lacks {', '.join(missing)}")

    return check


TASKS = [
    Task(
        name="pdf-invoices",
        text="What do the totals (VAT included) of the invoices in /data/invoices that are due in March 2024 add up to?",
        files=_invoices,
        check=figure(2981.45, within=0.02),
        reference="""
import re
total = 0
for path in sorted((DATA / "invoices").iterdir()):
    text = path.read_bytes().decode("latin-1")
    if re.search(r"Due: (\\S{7})", text)[1] == "2024-03":
        total += float(re.search(r"Total ([\\d,.]+)", text)[1].replace(",", ""))
print(f"{total:.2f}")
""",
        wrong={
            "net": ("Total (", "Net ("),
            "every month": ('== "2024-03"', '> ""'),
            "one invoice": ("total +=", "total ="),
        },
    ),
    Task(
        name="pdf-page",
        text="What is the approved budget of the project Kestrel according to /data/report.pdf, and on which page of the file does it stand?",
        files=_report,
        check=all_of(figure(464_371), figure(9)),
        reference="""
import re
pages = re.findall(r"stream\\n(.*?)endstream", (DATA / "report.pdf").read_bytes().decode("latin-1"), re.S)
for number, text in enumerate(pages, 1):
    if "Project Kestrel, part" in text and "Approved" in text:
        print("page", number, re.search(r"Approved budget: ([\\d,]+)", text)[1], "EUR")
""",
        wrong={
            "last year's": ("Approved budget: ([", "year's budget: (["),
            "another project": ("Project Kestrel", "Project Merlin"),
            "pages from 0": ("enumerate(pages, 1)", "enumerate(pages, 0)"),
        },
    ),
    Task(
        name="pdf-prices",
        text="Which article of the group timber in /data/prices.pdf is the dearest, and what does it cost? The list has several pages.",
        files=_prices,
        check=all_of(first_named("A109", r"A\d\d\d"), figure(296.97)),
        reference="""
import re
lines = re.findall(r"\\((A\\d+)  (\\w+)  ([\\d.]+)\\)", (DATA / "prices.pdf").read_bytes().decode("latin-1"))
price, article = max((float(price), article) for article, group, price in lines if group == "timber")
print(f"{article} costs {price:.2f}")
""",
        wrong={
            "every group": (' if group == "timber"', ""),
            "the first page": ("in lines if", "in lines[:18] if"),
            "the cheapest": ("= max(", "= min("),
        },
    ),
    Task(
        name="pdf-report",
        text="Make a one-page PDF report /results/harvest.pdf with the title Harvest and a table of each field of /data/harvest.csv with its total "
        "kilograms over all years.",
        files=_harvest,
        check=_report_made(8114, 9981, 10_267),
        reference="""
total = {}
for row in rows("harvest.csv"):
    total[row["field"]] = total.get(row["field"], 0) + int(row["kilograms"])
make_pdf(RESULTS / "harvest.pdf", [["Harvest", *(f"{field} {weight:,} kg" for field, weight in total.items())]])
print("See /results/harvest.pdf")
""",
        wrong={
            "the largest row": ('total.get(row["field"], 0) +', "0 +"),
            "rows counted": ('int(row["kilograms"])', "1"),
            "no title": ('"Harvest", *', '"Report", *'),
            "one year": (
                'rows("harvest.csv")',
                '[row for row in rows("harvest.csv") if row["year"] == "2024"]',
            ),
        },
    ),
]
