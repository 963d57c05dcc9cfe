"""Opens the rules file and the record of decisions."""

from __future__ import annotations

from agent.settings import DECISIONS, Settings, SettingsError
from libs.middleware.approvals import DecisionLog, RulesError, RulesFile

__all__ = ["checked_rules", "decision_log"]


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
