"""Add a rule to the rules file, or remove one. Comments and the form of the other rules stay as they are."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from libs.middleware.approvals.rules.rule import Rule
from libs.middleware.approvals.rules.rule_offers import WRITTEN, offers
from libs.middleware.approvals.rules.rules import Rules, RulesError

__all__ = ["add_rule", "remove_rule", "rule_text"]

_HEADER = re.compile(r"""[ \t]*\[\[[ \t]*["']?rule["']?[ \t]*\]\]""")
_TRIVIA = re.compile(r"[ \t]*(?:#.*)?\r?\n?")
"""A blank line, or a comment."""


def add_rule(path: Path, tool: str, args: Mapping[str, Any], text: str) -> Rule:
    """Append a rule that `offers` offers for a call, and return the rule; blocks.

    Args:
        path: the rules file, which need not exist.
        tool: name of the tool.
        args: arguments of the call.
        text: `Offer.text`, as the person has seen the rule.

    Raises:
        NoRule: no rule can be offered for the call any more.
        RulesError: the file cannot be read or written, or the rule is not offered any more.
    """
    with _alone(path) as file:
        before = _read(file)
        rules = Rules.parse(before, path)
        offer = next((each for each in offers(rules, tool, args) if each.text == text), None)
        if offer is None:
            raise RulesError(
                f"{path}: the rules have changed since this rule was shown. Nothing was written."
            )
        gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
        _write(file, path, f"{before}{gap}{text}", (*rules.all, offer.rule))
        return offer.rule


def rule_text(path: Path, number: int) -> str:
    """Return the text of a rule in the rules file, with the comment of `offers`; blocks.

    Raises:
        RulesError: the file cannot be read, or has no such rule.
    """
    text = _read(path)
    start, end = _place(path, text, number)
    return "".join(text.splitlines(keepends=True)[start:end])


def remove_rule(path: Path, number: int, text: str) -> Rule:
    """Remove a rule from the rules file, and return the rule; blocks.

    Args:
        path: the rules file.
        number: number of the rule, from 1.
        text: `rule_text`, as the person has seen the rule.

    Raises:
        RulesError: the file cannot be read or written, or this rule is not there any more.
    """
    with _alone(path) as file:
        before = _read(file)
        start, end = _place(path, before, number)
        lines = before.splitlines(keepends=True)
        if "".join(lines[start:end]) != text:
            raise RulesError(f"{path}: rule {number} is another one now. Nothing was removed.")
        rules = Rules.parse(before, path)
        left = [each for each in rules.all if each.number != number]
        if start and not lines[start - 1].strip():
            start -= 1  # the blank line above
        numbered = tuple(each.model_copy(update={"number": at}) for at, each in enumerate(left, 1))
        _write(file, path, "".join([*lines[:start], *lines[end:]]), numbered)
        return rules.all[number - 1]


def _place(path: Path, text: str, number: int) -> tuple[int, int]:
    """Return the first line of a rule, and the line after its last. The other lines belong to no rule.

    A `[[rule]]` inside a string of several lines is none: what stands before it is no TOML.
    """
    lines = text.splitlines(keepends=True)
    starts = [at for at, line in enumerate(lines) if _HEADER.match(line) and _is_toml("".join(lines[:at]))]
    rules = Rules.parse(text, path)
    if len(starts) != len(rules.all):
        raise RulesError(f"{path}: the rules are not all written as [[rule]]: edit the file by hand.")
    if not 0 < number <= len(starts):
        raise RulesError(f"{path}: there are {len(starts)} rules, and no number {number}.")
    start, end = starts[number - 1], [*starts, len(lines)][number]
    while _TRIVIA.fullmatch(lines[end - 1]) and _is_toml("".join(lines[: end - 1])):
        end -= 1
    if start and WRITTEN.fullmatch(lines[start - 1].strip()):
        start -= 1
    return start, end


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise RulesError(f"{file}: cannot be read: {error}") from None


def _write(file: Path, path: Path, text: str, expected: tuple[Rule, ...]) -> None:
    """Replace the file if its text reads as the expected rules. The mode of the file stays.

    Raises:
        RulesError: the text reads otherwise, or the file cannot be written. The file is as it was.
    """
    if Rules.parse(text, path).all != expected:
        raise RulesError(f"{path}: the file is written in a way that this cannot change: edit it by hand.")
    try:
        mode = file.stat().st_mode & 0o7777 if file.exists() else 0o600
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}-", delete=False) as new:
            try:
                new.write(text.encode())
                new.flush()
                os.fchmod(new.fileno(), mode)
                os.fsync(new.fileno())
                Path(new.name).replace(file)
            except BaseException:
                Path(new.name).unlink()
                raise
    except OSError as error:
        raise RulesError(f"{path}: cannot be written: {error}") from None


@contextmanager
def _alone(path: Path) -> Iterator[Path]:
    """Yield the file that a path leads to, while no other program adds or removes a rule.

    The folder is locked, because the file itself is replaced.
    """
    with ExitStack() as stack:
        try:
            file = path.resolve()
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, folder)
            fcntl.flock(folder, fcntl.LOCK_EX)
        except OSError as error:
            raise RulesError(f"{path}: cannot be written: {error}") from None
        yield file
