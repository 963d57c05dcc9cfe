"""Renders a Markdown document as the bytes of a PDF."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Paragraph, SimpleDocTemplate

from skills.pdf._blocks import blocks
from skills.pdf._inline import escape, plain
from skills.pdf._style import GREY, MARGIN, PAGE, TEXT, TITLE, register_fonts


def render(markdown: str, *, title: str | None, name: str) -> bytes:
    """Return the PDF of `markdown`. Its title is `title`, else the first heading, else `name`.

    Raises:
        ValueError: an image is not in /workspace or cannot be read, or a table has too many columns.
    """
    register_fonts()
    # HTML is off, because it could make reportlab open files and addresses.
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    tree = SyntaxTreeNode(parser.parse(markdown))
    heading = next((plain(node.children[0]) for node in tree.children if node.type == "heading"), "")
    story: list[Any] = [Paragraph(escape(title), TITLE)] if title else []
    story += blocks(tree.children)
    if not story:  # for example only link definitions
        raise ValueError("there is no text: the Markdown has nothing to show")
    output = BytesIO()
    document = SimpleDocTemplate(
        output,
        pagesize=PAGE,
        title=title or heading or name,
        leftMargin=MARGIN - 6,  # a frame has a padding of 6 points
        rightMargin=MARGIN - 6,
        topMargin=MARGIN - 6,
        bottomMargin=MARGIN - 6,
    )
    document.build(story, onFirstPage=_number, onLaterPages=_number)
    return output.getvalue()


def _number(canvas: Canvas, document: SimpleDocTemplate) -> None:
    canvas.setFont(TEXT, 8)
    canvas.setFillColor(GREY)
    canvas.drawCentredString(PAGE[0] / 2, MARGIN / 2, str(document.page))
