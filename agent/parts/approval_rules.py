"""Opens the rules file and the record of decisions, and writes the rules of a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.settings import DECISIONS, Settings, SettingsError
from libs.middleware.approvals import (
    DecisionLog,
    Offer,
    Rule,
    RulesError,
    RulesFile,
    add_rule,
    offers,
    remove_rule,
    rule_record,
    rule_text,
)

__all__ = ["RuleBook", "checked_rules", "decision_log"]


def checked_rules(settings: Settings) -> RulesFile:
    """Return the rules file of the settings. Without APPROVAL_RULES, it need not exist.

    Raises:
        SettingsError: the file cannot be read, a rule is wrong, or an example of a rule fails.
    """
    file = RulesFile(settings.rules_path.absolute(), needed=settings.approval_rules is not None)
    try:
        file.rules()
    except RulesError as error:
        raise SettingsError(f"APPROVAL_RULES={error}") from None
    return file


def decision_log() -> DecisionLog:
    """Return the record of decisions below the working directory."""
    return DecisionLog(DECISIONS.absolute())


class RuleBook:
    """Writes the rules that a person has seen to the rules file, and records them. All methods block.

    Each method raises `RulesError` if the file cannot be read or written, or has changed since the person saw
    the rule. A call is given as a question has it, in `action_requests`.

    Raises:
        SettingsError: see `checked_rules`.
    """

    def __init__(self, settings: Settings) -> None:
        self._file = checked_rules(settings)
        self._log = decision_log()
        self.path = settings.rules_path.absolute()
        """The rules file."""

    def offers(self, request: Mapping[str, Any]) -> list[Offer]:
        """Return the rules that would allow a call.

        Raises:
            NoRule: there is none; the message says why.
        """
        return offers(self._file.rules(), request["name"], request["args"])

    def add(self, request: Mapping[str, Any], text: str, *, thread: str, owner: str = "") -> Rule:
        """Add a rule for a call, as the text of an offer shows it, and return the rule.

        Raises:
            NoRule: there is no such rule any more.
            OSError: the rule is in the file, and could not be recorded.
        """
        self._file.rules()  # a file that has disappeared is no empty one
        rule = add_rule(self.path, request["name"], request["args"], text)
        self._log.add([rule_record("add rule", rule, thread=thread, request=request, owner=owner)])
        return rule

    def text(self, number: int) -> str:
        """Return the text of a rule."""
        return rule_text(self.path, number)

    def remove(self, number: int, text: str) -> None:
        """Remove the rule of this number and text."""
        self._log.add([rule_record("remove rule", remove_rule(self.path, number, text))])
