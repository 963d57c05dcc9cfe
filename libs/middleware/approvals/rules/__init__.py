"""Rules that decide on calls before a person is asked.

In: the rules file and the calls. Out: `allow`, `ask` or `deny` for each call, and the rules that said so.
"""

from __future__ import annotations

from libs.middleware.approvals.rules.call_rules import CallRules, Denied, read_rules, read_rules_now
from libs.middleware.approvals.rules.path_patterns import contains, matches
from libs.middleware.approvals.rules.rule import RULED, Rule, RuleDecision
from libs.middleware.approvals.rules.rules import Rules, RulesError, Verdict
from libs.middleware.approvals.rules.rules_file import RulesFile

__all__ = [
    "RULED",
    "CallRules",
    "Denied",
    "Rule",
    "RuleDecision",
    "Rules",
    "RulesError",
    "RulesFile",
    "Verdict",
    "contains",
    "matches",
    "read_rules",
    "read_rules_now",
]
