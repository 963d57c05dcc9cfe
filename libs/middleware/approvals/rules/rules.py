"""The rules of a file: which calls are allowed, asked about or denied."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from libs.middleware.approvals.rules.rule import Call, Rule, RuleDecision
from libs.sandbox import declared_uses

__all__ = ["Rules", "RulesError", "Verdict"]

_ARGUMENT = {"execute": "command", "execute_code": "code"}

_REMEMBERED = 100
"""Most verdicts that are remembered."""


class RulesError(ValueError):
    """The rules file cannot be used. `str(error)` names the file, the rule and its example."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rules say about a call."""

    decision: RuleDecision
    rules: tuple[Rule, ...] = ()
    """The rules that decided. None for `ask`: no rule covers the call."""
    uses: tuple[str, ...] = ()
    """The tools of MCP servers that the call declares, if it is asked about."""

    @property
    def by(self) -> str:
        """The rules that decided, as text."""
        return ", ".join(map(str, self.rules))


class Rules:
    """The rules of one file, checked against their examples.

    `deny` comes first, then `ask`, then `allow`. A call that no rule covers is asked about.
    """

    def __init__(self, rules: Sequence[Rule] = (), *, path: Path | None = None) -> None:
        self.all = tuple(rules)
        self.path = path
        """The file; None: there is none."""
        self.digest = " ".join(rule.digest for rule in self.all)
        """The digests of the rules, with blanks between them."""
        self._verdicts: dict[str, Verdict] = {}

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a rules file and check the examples of its rules.

        Raises:
            RulesError: the file cannot be read, a rule is wrong, or an example fails. The text names the
                rule and the example.
        """
        try:
            text = path.read_bytes().decode()
        except (OSError, ValueError) as error:
            raise RulesError(f"{path}: cannot be read: {error}") from None
        return cls.parse(text, path)

    @classmethod
    def parse(cls, text: str, path: Path) -> Self:
        """Read the text of a rules file as `load` does.

        Raises:
            RulesError: as `load`. The text of the error names `path`.
        """
        try:
            table = tomllib.loads(text)
        except ValueError as error:
            raise RulesError(f"{path}: cannot be read: {error}") from None
        given = table.pop("rule", [])
        if table or not isinstance(given, list):
            key = next(iter(table), "rule")
            raise RulesError(f"{path}: {key!r} is not known: write [[rule]] for each rule.")
        rules = [_rule(path, number, each) for number, each in enumerate(given, 1)]
        return cls(rules, path=path)

    def decide(self, tool: str, args: Mapping[str, Any]) -> RuleDecision:
        """Return what the rules say about a call. No rule covers it: `ask`."""
        return self.verdict(tool, args).decision

    def verdict(self, tool: str, args: Mapping[str, Any]) -> Verdict:
        """Return what the rules say about a call, and which rules said it. Verdicts are remembered."""
        key = json.dumps([tool, args], sort_keys=True, default=repr)
        if (known := self._verdicts.get(key)) is None:
            if len(self._verdicts) >= _REMEMBERED:
                self._verdicts.clear()
            known = self._verdicts[key] = self._judged(tool, args)
        return known

    def _judged(self, tool: str, args: Mapping[str, Any]) -> Verdict:
        """Return the strictest verdict on a call and on the tools of MCP servers that it declares."""
        uses = declared_uses(args.get(_ARGUMENT.get(tool, "")))
        verdicts = [self._alone(tool, args), *(self._alone(f"mcp:{use}", {}) for use in uses)]
        strictest = next((each for each in verdicts if each.decision == "deny"), None)
        if strictest or not uses:
            return strictest or verdicts[0]
        asks = [each for each in verdicts if each.decision == "ask"]
        rules = tuple(rule for each in asks or verdicts for rule in each.rules)
        return Verdict("ask", rules, uses) if asks else Verdict("allow", rules)

    def _alone(self, tool: str, args: Mapping[str, Any]) -> Verdict:
        rules = [rule for rule in self.all if rule.tool == tool]
        if not rules:
            return Verdict("ask")
        call = Call(tool, args)
        strict = [rule for rule in rules if rule.decision != "allow"]
        for decision in ("deny", "ask"):
            for rule in strict:
                if rule.decision == decision and rule.covers(call):
                    return Verdict(rule.decision, (rule,))
        allows = [rule for rule in rules if rule.decision == "allow"]
        for rule in allows:
            if rule.exact is not None and rule.covers(call):
                return Verdict("allow", (rule,))
        for rule in strict:
            if rule.may_cover(call):
                return Verdict("ask", (rule,))
        return _allowed(call, allows)


def _allowed(call: Call, allows: Sequence[Rule]) -> Verdict:
    """Return `allow` if rules cover every part of the call, else `ask`."""
    if call.tool != "execute":
        covering = next((rule for rule in allows if rule.covers(call)), None)
        return Verdict("allow", (covering,)) if covering else Verdict("ask")
    if call.has_more or not call.plain:
        return Verdict("ask")
    used: dict[int, Rule] = {}
    for words in call.plain:
        rule = next((each for each in allows if each.allows(words)), None)
        if rule is None:
            return Verdict("ask")
        used[rule.number] = rule
    return Verdict("allow", tuple(used.values()))


def _rule(path: Path, number: int, given: Any) -> Rule:
    """Return a rule whose examples hold.

    Raises:
        RulesError: the rule is wrong, or an example fails.
    """
    try:
        rule = Rule.model_validate(given).model_copy(update={"number": number})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        raise RulesError(f"{path}: rule {number}: {where}{': ' * bool(where)}{said}") from None
    for examples, expected in ((rule.match, True), (rule.not_match, False)):
        for example in examples:
            if rule.covers(_example(rule, example)) is not expected:
                found = "is not covered by this rule alone" if expected else "is covered by this rule"
                listed = "match" if expected else "not_match"
                raise RulesError(f"{path}: {rule}: the example {example!r} of {listed} {found}.")
    return rule


def _example(rule: Rule, example: str) -> Call:
    args = {_ARGUMENT.get(rule.tool, "file_path"): example}
    return Call(rule.tool, {**args, "language": rule.language} if rule.language else args)
