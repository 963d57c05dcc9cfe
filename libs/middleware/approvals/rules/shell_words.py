"""Read a plain command: simple commands of literal words, joined by `;`, `&&`, `||`, `|` and line ends.

In this part of bash, words and separators never depend on context, so a regular expression splits a command
exactly as bash does. Everything else (`$`, back-ticks, redirections, braces, `&`, control characters, …) is
no plain command.
"""

from __future__ import annotations

import re

__all__ = ["Word", "literal", "plain_commands"]

Word = str | None
"""The text of a word after the removal of quotes. None: bash makes the text, and perhaps several words."""

_WORD = r"""(?>
      [^\x00-\x20\x7f"'\\$`&|;()<>{}]++
    | \{\}
    | \\[^\x00-\x1f\x7f]
    | '[^'\x00-\x08\x0b-\x1f\x7f]*+'
    | "(?>[^"\\$`\x00-\x08\x0b-\x1f\x7f]|\\[^$`\x00-\x1f\x7f])*+"
)++"""
_ONE_WORD = re.compile(_WORD, re.VERBOSE)
# A continued line separates words only beside a blank: `git pu\` and `sh` on the next line are one word.
_TOKEN = re.compile(
    rf"""
      (?P<blank>(?:\\\n)*[ \t](?:[ \t]|\\\n)*)
    | (?P<comment>\#[^\x00-\x08\x0a-\x1f\x7f]*)
    | (?P<end>\|\||&&|[|;\n])
    | (?P<word>{_WORD})
    """,
    re.VERBOSE,
)
_PIECE = re.compile(
    r"""'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|\\(?P<escaped>.)|(?P<bare>[^'"\\]+)"""
)
_GLOB = frozenset("*?[~")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[.*)?\+?=", re.DOTALL)
_RESERVED = frozenset(
    "! [[ ]] case coproc do done elif else esac fi for function if in select then time until while".split()  # noqa: SIM905
)


def plain_commands(text: str) -> list[tuple[Word, ...]] | None:
    """Return the simple commands of a plain command, as bash runs them. None: the command is not plain."""
    commands: list[tuple[Word, ...]] = []
    words: list[Word] = []
    at, glued = 0, False
    while at < len(text):
        if (token := _TOKEN.match(text, at)) is None:
            return None
        at = token.end()
        if token.lastgroup == "word":
            raw = token["word"]
            # A word beside a word, or braces inside a word, such as `{}x`: not read the same way everywhere.
            if glued or ("{}" in raw and raw != "{}"):
                return None
            if not words and (raw in _RESERVED or _ASSIGNMENT.match(raw)):
                return None
            words.append(literal(raw))
        elif token.lastgroup == "end":
            if words:
                commands.append(tuple(words))
            words = []
        elif token.lastgroup == "comment" and glued:
            return None
        glued = token.lastgroup == "word"
    return [*commands, tuple(words)] if words else commands


def literal(raw: str) -> Word:
    """Return the text of a word as it stands in a command, or None if bash would expand the word."""
    if not _ONE_WORD.fullmatch(raw):
        return None
    pieces: list[str] = []
    for piece in _PIECE.finditer(raw):
        match piece.lastgroup, piece[piece.lastgroup or 0]:
            case "bare", text if _GLOB & set(text):
                return None
            case "double", text:
                pieces.append(re.sub(r'\\(["\\])', r"\1", text))
            case _, text:
                pieces.append(text)
    return "".join(pieces)
