"""Read code blocks from a model's reply with a Markdown parser (CommonMark).

Fenced blocks are read wherever Markdown allows them: back-ticks or tildes of any length, in lists and
quotations, and indented by four columns or more, which CommonMark alone reads as plain code. The first
word after the fence decides, in any case and with any attributes (`{.python}`, `Python title="x"`):

- python, py, py3, python3 and its versions, ipython; bash, sh, shell: run.
- no word, `code` or `tool_code`: not run; the model is asked for a language.
- javascript, sql, java and other programming languages: not run; the model gets the languages that run.
- text, json, output, csv, yaml, markdown and everything else: not run.

Line ends become newlines. All other characters of a block stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

__all__ = ["MAX_REPLY", "Block", "Problem", "Reading", "open_here_document", "read_reply", "without_thoughts"]

Language = Literal["python", "bash"]

MAX_REPLY = 100_000
"""Most characters of a reply that is read. The parser takes half a second for them at worst."""

Problem = Literal["too_long", "unclosed", "nested", "not_text"]
"""Why reading stops before the end of a reply:

- `too_long`: the reply has more than `MAX_REPLY` characters.
- `unclosed`: a runnable block has no closing fence.
- `nested`: the end of a runnable block is ambiguous. The block holds the opening of another fence, or ends
  inside a here-document.
- `not_text`: a runnable block holds NUL, which Markdown would replace, or half of a surrogate pair, which a
  checkpoint would replace. Other code would run.
"""

_PYTHON = re.compile(r"python[\d.]*|i?py[\d.]*|ipython[\d.]*")
_BASH = {"bash", "sh", "shell"}
_UNTAGGED = {"", "tool_code", "code"}
_OTHERS = frozenset(
    "javascript js jsx mjs node typescript ts tsx deno java kotlin scala groovy c h cpp c++ cxx "  # noqa: SIM905
    "csharp c# cs fsharp f# go golang rust rs ruby rb perl pl php swift objective-c objc dart lua r "
    "julia haskell hs ocaml elixir erlang clojure lisp scheme sql mysql postgresql sqlite powershell "
    "ps1 pwsh cmd bat batch dos zsh fish csh ksh matlab octave fortran pascal vb vba nim zig v awk".split()
)

_TAG = re.compile(r"[\s{.]*([\w+#.-]*)")
_FENCE = re.compile(r" {0,3}(?:`{3,}|~{3,})")
_THOUGHTS = re.compile(r"\s*<(think|thinking)>.*?(?:</\1>|\Z)", re.DOTALL)
_THOUGHTS_END = re.compile(r"^[ \t]*</(think|thinking)>[ \t]*$", re.MULTILINE)
_HERE_DOCUMENT = re.compile(
    r"(?<!<)<<-?[ \t]*(?:(['\"])(?P<quoted>[^\s'\"][^'\"\n]*)\1|\\?(?P<word>[A-Za-z_][\w.-]*+))(?![ \t]*\))"
)
_HALF = re.compile("[\ud800-\udfff]")
_NUL = "\ud800"
"""Stands for NUL while a reply is parsed."""
_MAX_INDENTS = 8
_NAME = r"""["'](?:name|tool|tool_name|function|action)["']\s*:\s*["'][^"'\n]{1,100}["']"""
_ARGUMENTS = r"""["'](?:arguments|parameters|args|input|action_input|tool_input|kwargs)["']\s*:"""
_CALL = re.compile(rf"\{{\s*(?:{_NAME}\s*,\s*{_ARGUMENTS}|{_ARGUMENTS}\s*\{{[^{{}}]*\}}\s*,\s*{_NAME})")
"""A call in JSON, in the format of a model's training."""
_CALL_TAGS = re.compile(
    r"<\|?/?(?:tool|function)[ _]?(?:call|use)s?\|?>|<(?:antml:)?invoke\s+name=|<function=[\w.-]+|"
    r"<\|?tool▁calls?|\[TOOL_CALLS?\]|<\|python_tag\|>",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Block:
    """Code that can run."""

    language: Language
    code: str
    """Without the newline before its closing fence."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of a reply."""

    blocks: tuple[Block, ...] = ()
    """The blocks to run, up to the first `problem`."""
    problem: Problem | None = None
    untagged: int = 0
    """Number of blocks without a language."""
    empty: int = 0
    """Number of runnable blocks without code."""
    others: tuple[str, ...] = ()
    """Programming languages in the reply that do not run here."""
    imitated_call: bool = False
    """Whether the reply holds a call in JSON or XML instead of code."""


def without_thoughts(reply: str) -> str:
    """Return the reply without `<think>…</think>` at its start: code in thoughts is a draft.

    If the server's prompt ends with the opening tag, the reply has only the closing tag, on its own line.
    """
    if _THOUGHTS.match(reply):
        return _THOUGHTS.sub("", reply, count=1)
    end = _THOUGHTS_END.search(reply)
    return reply if end is None or f"<{end[1]}>" in reply[: end.start()] else reply[end.end() :]


def read_reply(reply: str) -> Reading:
    """Read a reply. Accepts any text and never raises."""
    if len(reply) > MAX_REPLY:
        return Reading(problem="too_long")
    blocks: list[Block] = []
    others: list[str] = []
    untagged = empty = 0
    problem: Problem | None = None
    lines = _Lines(reply)
    for fence in _fences(reply.replace("\0", _NUL)):
        tag, code = _tag(fence.info), fence.content.removesuffix("\n")
        language = _language(tag)
        if language is None:
            untagged += tag in _UNTAGGED and bool(code.strip())
            others += [tag] if tag in _OTHERS else []
        elif problem := _problem(fence):
            break
        elif language == "bash" and _is_cut_in_two(code, lines):
            problem = "nested"
            break
        elif code.strip():
            blocks.append(Block(language, code))
        else:
            empty += 1
    imitated = not blocks and problem is None and bool(_CALL.search(reply) or _CALL_TAGS.search(reply))
    different = tuple(dict.fromkeys(others))
    return Reading(tuple(blocks), problem, untagged, empty, different, imitated)


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt  # slow to import, so imported at the first reply

    markdown = MarkdownIt("commonmark")
    # Only blocks are needed. Link definitions would cost more time than everything else.
    markdown.core.ruler.enableOnly(["normalize", "block"])
    markdown.disable("reference")
    return markdown


def _fences(text: str, indents: int = 0) -> Iterator[Token]:
    for token in _markdown().parse(text):
        if token.type == "fence":
            yield token
        elif token.type == "code_block" and indents < _MAX_INDENTS and _FENCE.match(token.content):
            yield from _fences(token.content, indents + 1)


def _tag(info: str) -> str:
    match = _TAG.match(info)
    return match[1].lower() if match else ""


def _language(tag: str) -> Language | None:
    return "python" if _PYTHON.fullmatch(tag) else "bash" if tag in _BASH else None


def _problem(fence: Token) -> Problem | None:
    if _HALF.search(fence.content):
        return "not_text"
    if _opens_another(fence):
        return "nested"
    first, end = fence.map or (0, 0)
    # `map` covers the opening and the closing fence. An unclosed block has no line for the closing fence.
    code_lines = fence.content.count("\n") + (not fence.content.endswith("\n") and bool(fence.content))
    return "unclosed" if code_lines != end - first - 2 else None


class _Lines:
    """The lines of a reply, which are split once for all its blocks."""

    def __init__(self, reply: str) -> None:
        self._reply = reply

    @cached_property
    def _text(self) -> str:
        return self._reply.replace("\r\n", "\n")

    @cached_property
    def _last(self) -> dict[str, int]:
        """Line without blanks at its ends -> the last place where it begins."""
        places: dict[str, int] = {}
        at = 0
        for line in self._text.split("\n"):
            places[line.strip()] = at
            at += len(line) + 1
        return places

    def has_below(self, code: str, line: str) -> bool:
        """Return whether a line comes after the first place of some code."""
        place = self._text.find(code)
        return place >= 0 and self._last.get(line, -1) >= place + len(code)


def open_here_document(code: str, *, indented: bool = False) -> str | None:
    """Return the word that would end the here-document in which bash code ends. None: it ends in none.

    Args:
        indented: whether a line with blanks around the word counts as the end, too.
    """
    words: list[str] = []
    for line in code.split("\n"):
        if not words:
            words = [found["quoted"] or found["word"] for found in _HERE_DOCUMENT.finditer(line)]
        elif (line.strip() if indented else line.lstrip("\t")) == words[0]:
            del words[0]
    return words[0] if words else None


def _is_cut_in_two(code: str, lines: _Lines) -> bool:
    """Return whether a fence inside a here-document has ended the block early."""
    word = open_here_document(code)
    return word is not None and lines.has_below(code, word)


def _opens_another(fence: Token) -> bool:
    mark, length = fence.markup[0], len(fence.markup)
    # A line with back-ticks after the tag is inline code. No two parts of the pattern match the same
    # characters, so the search takes linear time.
    info = r"[^`\n]+" if mark == "`" else r"[^~\n][^\n]*"
    lines = re.findall(rf"^ {{0,3}}{mark}{{{length},}}({info})$", fence.content, re.MULTILINE)
    return any(map(_tag, lines))
