"""Turns the blocks of a Markdown tree into elements of reportlab."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import ceil
from typing import Any

from markdown_it.tree import SyntaxTreeNode
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.platypus import HRFlowable, Indenter, Paragraph, Spacer, Table, XPreformatted

from skills.pdf._image import picture
from skills.pdf._inline import escape, markup, plain
from skills.pdf._style import ALIGN, BODY, CELL, CODE_BLOCK, HEADINGS, INDENT, LINE, QUOTE, SHADE, TEXT, WIDTH

_PADDING = 12
"""Horizontal padding of a cell in points, both sides together."""


def blocks(
    nodes: Iterable[SyntaxTreeNode], width: float = WIDTH, style: ParagraphStyle = BODY
) -> Iterator[Any]:
    """Yield the elements of reportlab for `nodes`, in a column of `width` points."""
    for node in nodes:
        if node.type == "heading":
            yield Paragraph(markup(node.children[0].children), HEADINGS[node.tag])
        elif node.type == "paragraph":
            yield from _paragraph(node, width, style)
        elif node.type in ("bullet_list", "ordered_list"):
            yield from _list(node, width, style)
        elif node.type == "blockquote":
            yield from _indented(blocks(node.children, width - INDENT, QUOTE))
        elif node.type in ("fence", "code_block"):
            yield _code(node.content, width)
        elif node.type == "table":
            yield _table(node, width)
            yield Spacer(0, 10)
        elif node.type == "hr":
            yield HRFlowable("100%", color=LINE, spaceBefore=4, spaceAfter=10)


def _indented(inside: Iterable[Any]) -> Iterator[Any]:
    yield Indenter(left=INDENT)
    yield from inside
    yield Indenter(left=-INDENT)


def _paragraph(
    node: SyntaxTreeNode, width: float, style: ParagraphStyle, bullet: str | None = None
) -> Iterator[Any]:
    """Yield text and images in their order; an image ends its line."""
    for is_image, parts in groupby(node.children[0].children, lambda part: part.type == "image"):
        if is_image:
            for image in parts:
                yield picture(str(image.attrs["src"]), width)
                yield Spacer(0, 8)
        elif text := markup(parts).strip():
            yield Paragraph(text, style, bulletText=bullet)
            bullet = None


def _list(node: SyntaxTreeNode, width: float, style: ParagraphStyle) -> Iterator[Any]:
    first = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
    # Wide enough for the last number, so that all items have the same indent.
    last = f"{first + len(node.children) - 1}. " if first is not None else ""
    indent = max(INDENT, stringWidth(last, TEXT, style.fontSize))
    item_style = ParagraphStyle("item", style, leftIndent=indent, spaceAfter=3)
    for number, item in enumerate(node.children):
        bullet = "•" if first is None else f"{first + number}."
        rest = item.children
        if rest and rest[0].type == "paragraph":
            yield from _paragraph(rest[0], width - indent, item_style, bullet)
            rest = rest[1:]
        else:
            yield Paragraph("", item_style, bulletText=bullet)
        if rest:
            yield from _indented(blocks(rest, width - INDENT, style))
    yield Spacer(0, 4)


def _code(text: str, width: float) -> XPreformatted:
    character = stringWidth("0", CODE_BLOCK.fontName, CODE_BLOCK.fontSize)
    longest = int((width - CODE_BLOCK.leftIndent - CODE_BLOCK.rightIndent) / character)
    lines = text.rstrip("\n").expandtabs(4).split("\n")
    folded = [line[start : start + longest] for line in lines for start in range(0, len(line) or 1, longest)]
    return XPreformatted(escape("\n".join(folded)) or " ", CODE_BLOCK)


def _table(node: SyntaxTreeNode, width: float) -> Table:
    rows = [row for part in node.children for row in part.children]
    cells = [[_cell(cell, bold=number == 0) for cell in row.children] for number, row in enumerate(rows)]
    widths = _column_widths([[plain(cell) for cell in row.children] for row in rows], width)
    if min(widths) <= _PADDING:
        fit = ceil(width / _PADDING) - 1
        raise ValueError(
            f"a table has {len(widths)} columns, and at most {fit} fit on the page: leave some out"
        )
    return Table(
        cells,
        colWidths=widths,
        repeatRows=1,
        splitInRow=1,  # a cell may be longer than a page
        hAlign="LEFT",
        style=[
            ("GRID", (0, 0), (-1, -1), 0.5, LINE),
            ("BACKGROUND", (0, 0), (-1, 0), SHADE),
            ("VALIGN", (0, 0), (-1, -1), "TOP"),
            ("TOPPADDING", (0, 0), (-1, -1), 3),
            ("BOTTOMPADDING", (0, 0), (-1, -1), 4),
        ],
    )


def _cell(node: SyntaxTreeNode, *, bold: bool) -> Paragraph:
    side = str(node.attrs.get("style", "text-align:left")).removeprefix("text-align:")
    text = markup(node.children[0].children) if node.children else ""
    return Paragraph(f"<b>{text}</b>" if bold else text, ParagraphStyle("cell", CELL, alignment=ALIGN[side]))


def _column_widths(rows: Sequence[Sequence[str]], width: float) -> list[float]:
    """Return widths that fit the text; wide columns shrink first if the table is too wide."""
    wanted = [
        max(stringWidth(text, f"{TEXT}-Bold", CELL.fontSize) for text in column) + 14
        for column in zip(*rows, strict=True)
    ]
    widths, left, columns = [0.0] * len(wanted), width, len(wanted)
    for index in sorted(range(len(wanted)), key=wanted.__getitem__):
        widths[index] = min(wanted[index], left / columns)
        left, columns = left - widths[index], columns - 1
    return widths
