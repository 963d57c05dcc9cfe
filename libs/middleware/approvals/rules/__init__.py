"""Rules that decide on calls before a person is asked.

In: the rules file and the calls. Out: `allow`, `ask` or `deny` for each call, and the rules that said so; and
    rules that a person may add to the file.
"""

from __future__ import annotations

from libs.middleware.approvals.rules.call_rules import CallRules, Denied, read_rules, read_rules_now
from libs.middleware.approvals.rules.path_patterns import contains, matches
from libs.middleware.approvals.rules.rule import RULED, Rule, RuleDecision, is_ruled
from libs.middleware.approvals.rules.rule_offers import NoRule, Offer, offers
from libs.middleware.approvals.rules.rules import Rules, RulesError, Verdict
from libs.middleware.approvals.rules.rules_file import RulesFile
from libs.middleware.approvals.rules.written_rules import add_rule, remove_rule, rule_text

__all__ = [
    "RULED",
    "CallRules",
    "Denied",
    "NoRule",
    "Offer",
    "Rule",
    "RuleDecision",
    "Rules",
    "RulesError",
    "RulesFile",
    "Verdict",
    "add_rule",
    "contains",
    "is_ruled",
    "matches",
    "offers",
    "read_rules",
    "read_rules_now",
    "remove_rule",
    "rule_text",
]
