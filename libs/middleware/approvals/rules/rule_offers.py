"""Offer the rules that would allow a call from now on, as text for the rules file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any

from pydantic import ValidationError
from wcmatch import glob

from libs.middleware.approvals.rules.path_patterns import is_clear
from libs.middleware.approvals.rules.rule import FILE_TOOLS, Call, Rule, is_ruled
from libs.middleware.approvals.rules.rules import Rules

__all__ = ["WRITTEN", "NoRule", "Offer", "offers"]

WRITTEN = re.compile(r"# Written on \d{4}-\d\d-\d\d, from the answer of a person\.")
"""The comment above a rule that a person has chosen at a question."""

_MOST_WORDS = 12
"""Longest prefix that is offered."""
_MOST_IN_LABEL = 80
_IN_LINE = re.compile(r'[\\"]|[ \t]\Z')
_IN_LINES = re.compile(r'\\|"(?="")|"\Z|[ \t](?=\n|\Z)')
"""Characters to escape in a string of one line and of several lines, besides those that are not printable."""


class NoRule(ValueError):
    """No rule can be offered for a call; the message says why."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A rule that would allow a call."""

    label: str
    """What the rule covers, for a list of choices: `git status …`, or `exactly this`."""
    rule: Rule
    text: str
    """The rule as text for the rules file. Characters that are not printable are escaped."""


def offers(rules: Rules, tool: str, args: Mapping[str, Any]) -> list[Offer]:
    """Return rules that would allow a call: prefixes, the shortest first, then the exact text or path.

    Each would allow the call beside the rules that there are.

    Raises:
        NoRule: there is none. The message says why.
    """
    call = Call(tool, args)
    found: list[Offer] = []
    if rules.decide(tool, args) != "ask":
        raise NoRule(_why_not(rules, call, args))
    for label, form in _forms(call):
        try:
            rule = Rule.model_validate({"tool": tool, "decision": "allow", **form})
        except ValidationError:  # such as the prefix `eval`
            continue
        after = Rules([*rules.all, rule.model_copy(update={"number": len(rules.all) + 1})])
        if after.decide(tool, args) == "allow":
            found.append(Offer(label, after.all[-1], _text(form, tool)))
    if not found:
        raise NoRule(_why_not(rules, call, args))
    return found


def _forms(call: Call) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what a rule about a call may say: label, keys and values."""
    subject = call.subject
    if call.tool.startswith("mcp:"):
        yield "every call of this tool", {}
    if subject is None or not _is_text(subject):
        return
    if call.tool == "execute":
        commands = call.plain or [()]
        # A rule covers a command alone if all of its simple commands begin with the words of the rule.
        shared = takewhile(lambda words: len(set(words)) == 1 and words[0], zip(*commands, strict=False))
        words = [str(each[0]) for each in shared][:_MOST_WORDS]
        for count in range(1, len(words) + 1):
            label = " ".join(shlex.join(words[:count]).split())[:_MOST_IN_LABEL]
            yield f"{label} …", {"prefix": words[:count], "match": [subject]}
    if call.tool in ("execute", "execute_code"):
        language = {"language": "bash"} if call.tool == "execute_code" and call.language == "bash" else {}
        yield "exactly this", {"exact": subject, **language}
    elif call.tool in FILE_TOOLS:
        pattern = glob.escape(subject, unix=True)
        yield f"any {call.tool} of {subject}", {"path": pattern, "match": [subject]}


def _why_not(rules: Rules, call: Call, args: Mapping[str, Any]) -> str:
    verdict = rules.verdict(call.tool, args)
    if not is_ruled(call.tool):
        return f"No rule can be about calls of {call.tool}."
    if verdict.decision == "allow":
        return f"{verdict.by} allows such calls already, but does not answer a question that waits."
    if verdict.rules:
        return f"{verdict.by} comes first, so that no rule can allow this call."
    if call.subject is None:
        return "The call has no text that a rule could be about."
    if call.has_more:
        return "No rule can allow a call with arguments beside its text, such as dependencies or files."
    if call.tool in FILE_TOOLS and not is_clear(call.subject):
        return "No rule can allow a path that is relative or contains `..`."
    return "The call has characters that a rules file cannot hold."


def _text(form: Mapping[str, Any], tool: str) -> str:
    about = {key: value for key, value in form.items() if key != "match"}
    examples = {"match": form["match"]} if "match" in form else {}
    lines = [f"# Written on {datetime.now(UTC):%Y-%m-%d}, from the answer of a person.", "[[rule]]"]
    for key, value in {"tool": tool, **about, "decision": "allow", **examples}.items():
        lines.append(f"{key} = {_value(value)}")
    return "\n".join(lines) + "\n"


def _value(value: str | Sequence[str]) -> str:
    """Return a string or a list of strings in TOML."""
    if not isinstance(value, str):
        return f"[{', '.join(map(_value, value))}]"
    quotes, begin, special = ('"""', "\n", _IN_LINES) if "\n" in value else ('"', "", _IN_LINE)
    escaped = special.sub(lambda found: _escaped(found[0]), value)
    seen = "".join(char if char in "\n\t" or char.isprintable() else _escaped(char) for char in escaped)
    return f"{quotes}{begin}{seen}{quotes}"


def _escaped(char: str) -> str:
    if char in '\\"':
        return f"\\{char}"
    return f"\\u{ord(char):04X}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08X}"


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True
