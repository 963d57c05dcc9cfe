"""Make the PDF files of test_pdf_processing.py. Runs in the sandbox, which has the libraries."""

from __future__ import annotations

import json
from pathlib import Path

from pypdf import PdfWriter
from pypdf.generic import ArrayObject, DictionaryObject, NameObject, NumberObject, TextStringObject
from reportlab.lib.colors import black
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Table

style = getSampleStyleSheet()["Normal"]
grid = [("GRID", (0, 0), (-1, -1), 1, black)]
SimpleDocTemplate("/workspace/data/report.pdf", title="Quarterly \u00e4", author="Ada").build(
    [
        Paragraph("First page, before the tables.", style),
        Table([["region", "revenue"], ["North", "1,200"], ["South", "950"]], style=grid),
        Paragraph("and between them", style),
        Table([["a", "b", "c"], ["1", "", 'x "y", z']], style=grid),
        PageBreak(),
        Paragraph("Second page.", style),
        PageBreak(),
        Table([["left", "right"], ["one", "two"]], style=grid),
        PageBreak(),
        Paragraph("Fourth page.", style),
    ]
)

canvas = Canvas("/workspace/data/form.pdf")
form = canvas.acroForm
form.textfield(name="name", x=50, y=700, width=200, height=20, maxlen=30, value="old")
form.textfield(name="locked", x=50, y=670, width=200, height=20, value="kept", fieldFlags="readOnly")
form.checkbox(name="agree", x=50, y=640, buttonStyle="check")
form.checkbox(name="news", x=80, y=640, checked=True)
for index, value in enumerate(("small", "medium", "large")):
    form.radio(name="size", value=value, selected=value == "medium", x=50 + 30 * index, y=600)
colours = [("Rot", "red"), ("Blau", "blue")]
form.choice(name="colour", value="red", options=colours, x=50, y=560, width=80, height=20)
canvas.showPage()
canvas.drawString(50, 780, "Second page")
form.textfield(name="note", x=50, y=700, width=200, height=60, fieldFlags="multiline")
canvas.save()

# The same field name at the top and in two groups, as other programs write it.
writer = PdfWriter(clone_from="/workspace/data/form.pdf")
fields = writer.root_object["/AcroForm"]["/Fields"]
for group in ("billing", "shipping"):
    parent = DictionaryObject(
        {NameObject("/T"): TextStringObject(group), NameObject("/FT"): NameObject("/Tx")}
    )
    reference = writer._add_object(parent)
    kid = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Annot"),
            NameObject("/Subtype"): NameObject("/Widget"),
            NameObject("/FT"): NameObject("/Tx"),
            NameObject("/T"): TextStringObject("name"),
            NameObject("/V"): TextStringObject(group),
            NameObject("/Parent"): reference,
            NameObject("/Rect"): ArrayObject(NumberObject(n) for n in (50, 500, 250, 520)),
        }
    )
    kid_reference = writer._add_object(kid)
    parent[NameObject("/Kids")] = ArrayObject([kid_reference])
    fields.append(reference)
    writer.pages[0]["/Annots"].append(kid_reference)
writer.write("/workspace/data/groups.pdf")

for name, algorithm in (("secret", "AES-256"), ("rc4", "RC4-128")):
    writer = PdfWriter(clone_from="/workspace/data/report.pdf")
    writer.encrypt("open-sesame", "owner", algorithm=algorithm)
    writer.write(f"/workspace/data/{name}.pdf")
writer = PdfWriter(clone_from="/workspace/data/form.pdf")
writer.encrypt("", "owner", algorithm="AES-256")
writer.write("/workspace/data/restricted.pdf")

canvas = Canvas("/workspace/data/many.pdf")
for number in range(1, 1501):
    canvas.drawString(50, 700, f"This is page {number}. " + "x" * 50)
    canvas.showPage()
canvas.save()
canvas = Canvas("/workspace/data/scan.pdf", pagesize=(300, 200))
canvas.rect(10, 10, 100, 100)
canvas.showPage()
canvas.setPageSize((200, 300))
canvas.drawString(9, 9, "words")
canvas.save()

whole = Path("/workspace/data/report.pdf").read_bytes()
Path("/workspace/data/half.pdf").write_bytes(whole[: len(whole) // 3])
Path("/workspace/data/noise.pdf").write_bytes(b"%PDF-1.7\n" + bytes(range(256)) * 40)
Path("/workspace/data/text.pdf").write_text("just text")
Path("/workspace/data/empty.pdf").touch()
Path("/workspace/data/values.json").write_text(
    json.dumps({"name": "From File", "agree": True, "news": False, "note": "two\nlines"})
)
Path("/workspace/data/list.json").write_text('["name"]')
