"""Find the simple commands of a command line in the syntax tree of tree-sitter's bash grammar.

The tree finds commands at any depth: in substitutions, functions, loops, subshells, and in the texts that
`bash -c`, `eval` and `trap` run.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from functools import cache
from time import thread_time
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser, Tree

from libs.middleware.approvals.rules.shell_words import Word, literal

__all__ = ["all_commands", "plain_commands_in_tree"]

_PLAIN_NODES = frozenset(
    """program list pipeline command command_name word number string string_content raw_string concatenation
    comment ; && || |""".split()  # noqa: SIM905 - a line for each would hide the others
) | {"\n", '"'}
_RUN_WORDS = frozenset(["eval", "trap", "sh", "bash", "dash", "rbash", "ash", "ksh", "zsh", "busybox", "su"])
"""Programs that run the text of a word as a command."""
_COMMANDS = frozenset(["command", "redirected_statement", "declaration_command", "unset_command"])
_INPUTS = frozenset(["heredoc_body", "herestring_redirect"])
_SUBSTITUTION = re.compile(r"`|\$\(|\)")
_SECONDS: Final = 0.5
"""Processor time for a text. Some texts take the square of their length: many open here-documents."""
_LONG: Final = 4_000
"""Bytes of a text that may take long to read."""


@cache
def _language() -> Language:
    return Language(tree_sitter_bash.language())


def _parsed(text: str, end: float) -> Tree | None:
    """Return the syntax tree of a text. None: the reading takes longer.

    Args:
        end: the reading of `time.thread_time` when the text must have been read.
    """
    content = text.encode(errors="replace")
    parser = Parser(_language())
    # Only a reading in pieces can be stopped, but then the nodes have no text. So a long text is read twice.
    if len(content) > _LONG:
        try:
            parser.parse(
                lambda start, _: content[start : start + _LONG],
                progress_callback=lambda *_: thread_time() > end,
            )
        except ValueError:  # stopped
            return None
    return parser.parse(content)


def plain_commands_in_tree(text: str) -> list[tuple[Word, ...]] | None:
    """Return the simple commands of a plain command (see `shell_words`), read by the grammar.

    None: an error, anything else than simple commands and their separators, or a text that takes too long.
    """
    tree = _parsed(text, thread_time() + _SECONDS)
    if tree is None or tree.root_node.has_error:
        return None
    commands = []
    for node in _nodes(tree.root_node):
        if node.type not in _PLAIN_NODES:
            return None
        if node.type == "command":
            commands.append(_words(node))
    return commands


def all_commands(text: str) -> list[tuple[Word, ...]] | None:
    """Return every simple command that can be found in a text, at any depth. None: that takes too long."""
    commands = []
    texts, seen, end = [text], set[str](), thread_time() + _SECONDS
    while texts:
        text = texts.pop()
        if text in seen:
            continue
        seen.add(text)
        # bash joins continued lines before it reads words.
        for form in dict.fromkeys((text, text.replace("\\\n", ""))):
            tree = _parsed(form, end)
            if tree is None or thread_time() > end:
                return None
            for node in _nodes(tree.root_node):
                if node.type in _COMMANDS:
                    words = _words(node)
                    commands.append(words)
                    # Each text is shorter than the command that it stands in, so this ends.
                    if any(word and word.rpartition("/")[2] in _RUN_WORDS for word in words):
                        texts += [word for word in words[1:] if word]
                        texts += [_input(each) for each in _nodes(node) if each.type in _INPUTS]
                elif node.type == "word" and _SUBSTITUTION.search(_text(node)):
                    # In ${x:-`rm y`} the grammar sees a word.
                    texts.append(_SUBSTITUTION.sub(" ", _text(node)))
    return commands


def _nodes(root: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it, in the order of the text."""
    cursor = root.walk()
    while True:
        if cursor.node is not None:
            yield cursor.node
        if cursor.goto_first_child() or cursor.goto_next_sibling():
            continue
        while cursor.goto_parent():
            if cursor.goto_next_sibling():
                break
        else:
            return


def _words(node: Node) -> tuple[Word, ...]:
    """Return the words of a command without its redirections and assignments."""
    words: list[Word] = []
    for index, child in enumerate(node.children):
        field = node.field_name_for_child(index)
        if field in ("name", "argument") or node.type in ("declaration_command", "unset_command"):
            words.append(_decoded(child))
        elif field == "body" and child.type == "command":
            words += _words(child)
        elif child.type == "file_redirect":
            # The grammar takes the words after a redirection for more of its targets.
            words += map(_decoded, child.children_by_field_name("destination")[1:])
        elif child.type == "heredoc_redirect":
            words += map(_decoded, child.children_by_field_name("argument"))
    return tuple(words)


def _decoded(node: Node) -> Word:
    raw = _text(node)
    if raw.startswith("$'") and raw.endswith("'") and raw.count("'") == 2:
        try:
            return codecs.decode(raw[2:-1].encode(), "unicode_escape")
        except UnicodeDecodeError:
            return None
    return literal(raw)


def _input(node: Node) -> str:
    """Return the text of a here-document or a here-string."""
    return (_decoded(node.children[-1]) or "") if node.type == "herestring_redirect" else _text(node)


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")
