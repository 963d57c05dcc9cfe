"""Turns the text inside a block, with emphasis, code and links, into the mark-up of reportlab."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape as escape_html

from markdown_it.tree import SyntaxTreeNode

from skills.pdf._style import CODE, LINK

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_TAGS = {"strong": "b", "em": "i", "s": "strike"}


def escape(text: str) -> str:
    """Return the text escaped for reportlab, without characters that no page can show."""
    return escape_html(_CONTROL.sub("", text))


def markup(nodes: Iterable[SyntaxTreeNode]) -> str:
    """Return the mark-up of these parts of a line; an image becomes its description."""
    return "".join(_one(node) for node in nodes)


def plain(node: SyntaxTreeNode) -> str:
    """Return the text of a node without mark-up."""
    if node.children:
        return "".join(plain(child) for child in node.children)
    return " " if node.type in ("softbreak", "hardbreak") else node.content


def _one(node: SyntaxTreeNode) -> str:
    if node.type in _TAGS:
        return f"<{_TAGS[node.type]}>{markup(node.children)}</{_TAGS[node.type]}>"
    if node.type == "code_inline":
        return f'<font face="{CODE}" size="-1">{escape(node.content)}</font>'
    if node.type == "hardbreak":
        return "<br/>"
    if node.type == "softbreak":
        return " "
    if node.type == "link":
        target = str(node.attrs.get("href", ""))
        inside = markup(node.children)
        # Other targets would be links inside this PDF, or to files of its reader.
        if not target.startswith(("http://", "https://", "mailto:")):
            return inside
        return f'<a href="{escape(target)}" color="{LINK}">{inside}</a>'
    if node.type == "image":
        return f"<i>{escape(plain(node))}</i>"
    return escape(node.content)
