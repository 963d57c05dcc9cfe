"""Fonts, sizes and colours of a page."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from reportlab.lib.colors import HexColor
from reportlab.lib.enums import TA_CENTER, TA_LEFT, TA_RIGHT
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfbase.pdfmetrics import registerFont, registerFontFamily
from reportlab.pdfbase.ttfonts import TTFont

PAGE = A4
MARGIN = 22 * mm
WIDTH = PAGE[0] - 2 * MARGIN
HEIGHT = PAGE[1] - 2 * MARGIN
INDENT = 16.0

TEXT, CODE = "DejaVuSans", "DejaVuSansMono"
INK, GREY, LINE, SHADE = (HexColor(colour) for colour in ("#1f2430", "#666c78", "#c9ced6", "#f3f4f6"))
LINK = "#1a56b0"
ALIGN = {"left": TA_LEFT, "center": TA_CENTER, "right": TA_RIGHT}

BODY = ParagraphStyle(
    "body", fontName=TEXT, bulletFontName=TEXT, fontSize=10, leading=15, spaceAfter=7, textColor=INK
)
QUOTE = ParagraphStyle("quote", BODY, textColor=GREY)
CELL = ParagraphStyle("cell", BODY, fontSize=8.5, leading=12, spaceAfter=0)
TITLE = ParagraphStyle("title", BODY, fontName=f"{TEXT}-Bold", fontSize=22, leading=28, spaceAfter=14)
CODE_BLOCK = ParagraphStyle(
    "code", BODY, fontName=CODE, fontSize=8, leading=11.5, backColor=SHADE, borderPadding=5, spaceBefore=4,
    spaceAfter=13, leftIndent=5, rightIndent=5,
)  # fmt: skip
HEADINGS = {
    f"h{level}": ParagraphStyle(
        f"h{level}", BODY, fontName=f"{TEXT}-Bold", fontSize=size, leading=size * 1.3,
        spaceBefore=size * 0.7, spaceAfter=size * 0.4, keepWithNext=1,
    )
    for level, size in enumerate((18, 14.5, 12.5, 11, 10, 10), 1)
}  # fmt: skip


def register_fonts() -> None:
    """Register the fonts of matplotlib with reportlab, whose own fonts lack most letters."""
    spec = find_spec("matplotlib")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("matplotlib, whose fonts are used, is not installed")
    folder = Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf"
    for family in (TEXT, CODE):
        faces = [family, f"{family}-Bold", f"{family}-Oblique", f"{family}-BoldOblique"]
        for face in faces:
            registerFont(TTFont(face, str(folder / f"{face}.ttf")))
        registerFontFamily(family, *faces)
