"""Read code blocks out of a model's reply, with a Markdown parser (CommonMark).

Read are fenced blocks, wherever Markdown allows them: back-ticks or tildes, of any length, in lists and
quotations, and indented by four columns or more, which CommonMark alone would take for plain code. The first
word after the fence, whatever its case and attributes (`{.python}`, `Python title="x"`), decides:

- python, py, py3, python3 and its versions, ipython; bash, sh, shell: run.
- console, terminal, shell-session and the like: run where every line begins with the prompt `$ ` (or, after
  such a line, the continuation `> `), which is removed. Otherwise it is a record of something, and shown.
- nothing: not run, and the model is asked for a tag. So is `tool_code`.
- javascript, sql, java and other programming languages: not run; the model is told which languages are.
- text, json, output, csv, yaml, markdown and everything else: shown, not run.

Line ends become newlines and NUL becomes U+FFFD. Everything else in a block is kept to the byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from libs.code_blocks.imitation import is_imitated_call

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

__all__ = ["LANGUAGES", "MAX_REPLY", "Block", "Problem", "Reading", "read_reply", "without_thoughts"]

Language = Literal["python", "bash"]

LANGUAGES = ("python", "bash")
"""What runs."""

MAX_REPLY = 100_000
"""Characters of the longest reply that is read. The parser takes half a second at worst for as many."""

Problem = Literal["too_long", "unclosed", "nested"]
"""Why a reply is not read (to its end):

- `too_long`: it has more than `MAX_REPLY` characters.
- `unclosed`: a block that would run has no end.
- `nested`: a block that would run holds the opening of another fence. Either its own end is missing, or what
  looks like its end is that of the inner one: nobody can tell. Or it ends within a here-document, whose own
  end comes later in the reply.
"""

_PYTHON = re.compile(r"python[\d.]*|i?py[\d.]*|ipython[\d.]*")
_BASH = {"bash", "sh", "shell"}
_RECORDS = {"console", "terminal", "shell-session", "shellsession", "sh-session", "bash-session"}
_UNTAGGED = {"", "tool_code", "code"}
_OTHERS = frozenset(
    # One word each: as a list it would take a page.
    "javascript js jsx mjs node typescript ts tsx deno java kotlin scala groovy c h cpp c++ cxx "  # noqa: SIM905
    "csharp c# cs fsharp f# go golang rust rs ruby rb perl pl php swift objective-c objc dart lua r "
    "julia haskell hs ocaml elixir erlang clojure lisp scheme sql mysql postgresql sqlite powershell "
    "ps1 pwsh cmd bat batch dos zsh fish csh ksh matlab octave fortran pascal vb vba nim zig v awk".split()
)

_TAG = re.compile(r"[\s{.]*([\w+#.-]*)")
_FENCE = re.compile(r" {0,3}(?:`{3,}|~{3,})")
_THOUGHTS = re.compile(r"\s*<(think|thinking)>.*?(?:</\1>|\Z)", re.DOTALL)
_THOUGHTS_END = re.compile(r"^[ \t]*</(think|thinking)>[ \t]*$", re.MULTILINE)
_HERE_DOCUMENT = re.compile(r"(?<!<)<<-?[ \t]*(['\"]?)([A-Za-z_]\w*\b)\1(?![ \t]*\))")
_MAX_INDENTS = 8


@dataclass(frozen=True, slots=True)
class Block:
    """Code that can run."""

    language: Language
    code: str
    """Without the newline before its closing fence."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply holds, in its order."""

    blocks: tuple[Block, ...] = ()
    """The blocks to run: those before `problem`, where there is one."""
    problem: Problem | None = None
    untagged: int = 0
    """Blocks that say no language."""
    empty: int = 0
    """Blocks of a language that runs, without any code."""
    others: tuple[str, ...] = ()
    """Tags of programming languages that do not run here."""
    imitated_call: bool = False
    """Whether, instead of code, it holds the JSON or XML of a call in some vendor's format."""


def without_thoughts(reply: str) -> str:
    """The reply without the `<think>…</think>` it may begin with: code in there is a draft.

    Where a server's prompt has the first tag already, a reply has the second alone, on a line of its own.
    """
    if _THOUGHTS.match(reply):
        return _THOUGHTS.sub("", reply, count=1)
    end = _THOUGHTS_END.search(reply)
    return reply if end is None or f"<{end[1]}>" in reply[: end.start()] else reply[end.end() :]


def read_reply(reply: str) -> Reading:
    """Read a reply. Takes any text, and never raises."""
    if len(reply) > MAX_REPLY:
        return Reading(problem="too_long")
    blocks: list[Block] = []
    others: list[str] = []
    untagged = empty = 0
    problem: Problem | None = None
    data: list[str] = []
    for fence in _fences(reply):
        tag, code = _tag(fence.info), fence.content.removesuffix("\n")
        language = _language(tag, code)
        if tag in _RECORDS:
            code = _without_prompts(code)
        if language is None:
            untagged += tag in _UNTAGGED and bool(code.strip())
            others += [tag] if tag in _OTHERS else []
            data.append(code)
        elif problem := _problem(fence):
            break
        elif language == "bash" and _is_cut_in_two(code, reply):
            problem = "nested"
            break
        elif code.strip():
            blocks.append(Block(language, code))
        else:
            empty += 1
    imitated = not blocks and problem is None and is_imitated_call(reply, data)
    different = tuple(dict.fromkeys(others))
    return Reading(tuple(blocks), problem, untagged, empty, different, imitated)


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt  # takes as long to import as the graph to build: not before a reply

    markdown = MarkdownIt("commonmark")
    # Blocks are all that is wanted; link definitions would cost more than everything else together.
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


def _language(tag: str, code: str) -> Language | None:
    if _PYTHON.fullmatch(tag):
        return "python"
    if tag in _BASH or (tag in _RECORDS and _all_prompts(code)):
        return "bash"
    return None


def _all_prompts(code: str) -> bool:
    lines = [line for line in code.split("\n") if line.strip()]
    return bool(lines) and lines[0].startswith("$ ") and all(line[:2] in ("$ ", "> ") for line in lines)


def _without_prompts(code: str) -> str:
    return "\n".join(line[2:] for line in code.split("\n"))


def _problem(fence: Token) -> Problem | None:
    if _opens_another(fence):
        return "nested"
    first, end = fence.map or (0, 0)
    # The lines from the opening to the closing fence, both included, or to where the parser gave up.
    code_lines = fence.content.count("\n") + (not fence.content.endswith("\n") and bool(fence.content))
    return "unclosed" if code_lines != end - first - 2 else None


def _is_cut_in_two(code: str, reply: str) -> bool:
    """Whether a here-document of bash has its end below the code, as a fence in it has ended the block."""
    words: list[str] = []
    for line in code.split("\n"):
        if not words:
            words = [found[2] for found in _HERE_DOCUMENT.finditer(line)]
        elif line.lstrip("\t") == words[0]:
            del words[0]
    if not words:
        return False
    below = reply.replace("\r\n", "\n").partition(code)[2]
    return words[0] in (line.strip() for line in below.split("\n"))


def _opens_another(fence: Token) -> bool:
    mark, length = fence.markup[0], len(fence.markup)
    # What follows back-ticks holds none itself, or the line is inline code. No two parts of the pattern match
    # the same characters: a long line would take forever.
    info = r"[^`\n]+" if mark == "`" else r"[^~\n][^\n]*"
    lines = re.findall(rf"^ {{0,3}}{mark}{{{length},}}({info})$", fence.content, re.MULTILINE)
    return any(map(_tag, lines))
