"""Match the words of a simple command with the words of a rule."""

from __future__ import annotations

import re
from collections.abc import Sequence

from libs.middleware.approvals.rules.shell_words import Word

__all__ = ["CODE_IN_WORDS", "begins_with", "holds", "may_hold"]

CODE_IN_WORDS = frozenset(
    """. alias bind builtin command compgen complete compopt coproc declare enable eval exec export fc getopts
    hash jobs let local mapfile read readarray readonly set shopt source trap typeset unalias unset
    wait""".split()  # noqa: SIM905
)
"""Builtins of bash that run their words as code, or change what later commands mean."""
_NAMES_VARIABLE = frozenset(["printf", "test"])
"""Builtins with an option that names a variable. bash runs the code in its index: `x[$(…)]`."""
_COUNTS = re.compile(r"%[-+ #'0-9*.hjlLtz]*n")
"""Directive of a `printf` format that sets a variable, such as `PATH`, to the number of characters so far."""
_NAME = re.compile(r"[\w.+/-]+")
_STARTERS = frozenset(
    """! builtin busybox chroot command coproc doas env eval exec find flock ionice nice nohup parallel setsid
    stdbuf sudo time timeout unshare watch xargs""".split()  # noqa: SIM905
)
"""Programs whose words hold another command."""


def begins_with(words: Sequence[Word], prefix: Sequence[Sequence[str]]) -> bool:
    """Return whether a command begins with exactly these words, so that an allow covers the command."""
    if len(words) < len(prefix):
        return False
    if words[0] in _NAMES_VARIABLE and any(
        word is None or word.startswith("-v") or word == "-R" for word in words[1:]
    ):
        return False
    if words[0] == "printf" and any(word and _COUNTS.search(word) for word in words[1:]):
        return False
    return all(word in choices for word, choices in zip(words, prefix, strict=False))


def holds(words: Sequence[Word], prefix: Sequence[Sequence[str]]) -> bool:
    """Return whether a command is certainly one that a `deny` or an `ask` names.

    The program may be written with a folder. Options, each with an argument of one word, may stand between
    the words of the rule. Programs such as `env` may start the program.
    """
    return any(_at(words, start, prefix, unknown=False) for start in _starts(words))


def may_hold(words: Sequence[Word], prefix: Sequence[Sequence[str]]) -> bool:
    """Return whether a command may be, or may start, one that a `deny` or an `ask` names."""
    return (
        any(_at(words, start, prefix, unknown=True) for start in _starts(words))
        or any(_at(words, start, prefix, unknown=False) for start in range(1, len(words)))
        or _names(" ".join(word for word in words[1:] if word), prefix)
    )


def _names(text: str, prefix: Sequence[Sequence[str]]) -> bool:
    """Return whether a text in the words names the command, as in `env -S 'rm x'`, `--to-command=rm`."""
    names = _NAME.findall(text)
    for at, name in enumerate(names):
        if name.startswith("-"):  # an option with its argument, as in -Srm
            names[at] = next((each for each in prefix[0] if name.endswith(each)), name)
        if _at(names, at, prefix, unknown=False):
            return True
    return False


def _starts(words: Sequence[Word]) -> range:
    """Return the places where a program that the command certainly runs may be named."""
    program = words[0].rpartition("/")[2] if words and words[0] else None
    return range(len(words) if program in _STARTERS else min(1, len(words)))


def _at(words: Sequence[Word], start: int, prefix: Sequence[Sequence[str]], *, unknown: bool) -> bool:
    """Return whether the words of the rule follow each other from `start`.

    `unknown`: whether a word that bash makes counts as the rule's next word.
    """
    program = words[start]
    if program is None:
        return unknown
    if program not in prefix[0] and program.rpartition("/")[2] not in prefix[0]:
        return False
    at = start
    for choices in prefix[1:]:
        after_option = False
        while True:
            at += 1
            if at == len(words):
                return False
            word = words[at]
            if word is None and unknown:
                return True
            if word is not None and word in choices:
                break
            is_option = word is not None and word.startswith("-")
            if not is_option and not after_option:
                return False
            after_option = is_option
    return True
