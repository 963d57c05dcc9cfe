"""The approval gate: gated calls wait for a person's decision.

In: gated calls, and answers. Out: an interrupt with the question, and the decisions. An answer is checked
    where it enters the graph, and grants are saved in the thread.
"""

from __future__ import annotations

from libs.middleware.approvals.addressed_answers import NothingWaits, answers_by_id, has_only_ids
from libs.middleware.approvals.addressed_graph import AddressedGraph, Turns, answer_by_id
from libs.middleware.approvals.approval_gate import CheckpointerRequired, ask, require_checkpointer
from libs.middleware.approvals.approval_middleware import ApprovalMiddleware
from libs.middleware.approvals.approvals_off import GrantsKept
from libs.middleware.approvals.decided_calls import Decided, Effects, RanAtOnce
from libs.middleware.approvals.decision_log import DecisionLog, decision_record, rule_record
from libs.middleware.approvals.decisions import Approve, Decision, Reject, WrongAnswer, read_answer
from libs.middleware.approvals.edited_calls import calls_as_run, edited_in
from libs.middleware.approvals.gate_rules import GateRules, InterruptMode, InterruptOn
from libs.middleware.approvals.grants import (
    GRANTS,
    Grant,
    Granted,
    Grants,
    Held,
    revoke,
    revoked_in,
    shown,
    standing_in,
)
from libs.middleware.approvals.question import Request
from libs.middleware.approvals.rules import (
    CallRules,
    Denied,
    NoRule,
    Offer,
    Rule,
    Rules,
    RulesError,
    RulesFile,
    add_rule,
    is_ruled,
    offers,
    read_rules,
    remove_rule,
    rule_text,
)
from libs.middleware.approvals.settle_calls import AtOnce, Settled, settled
from libs.middleware.approvals.visible_text import visible

__all__ = [
    "GRANTS",
    "AddressedGraph",
    "ApprovalMiddleware",
    "Approve",
    "AtOnce",
    "CallRules",
    "CheckpointerRequired",
    "Decided",
    "Decision",
    "DecisionLog",
    "Denied",
    "Effects",
    "GateRules",
    "Grant",
    "Granted",
    "Grants",
    "GrantsKept",
    "Held",
    "InterruptMode",
    "InterruptOn",
    "NoRule",
    "NothingWaits",
    "Offer",
    "RanAtOnce",
    "Reject",
    "Request",
    "Rule",
    "Rules",
    "RulesError",
    "RulesFile",
    "Settled",
    "Turns",
    "WrongAnswer",
    "add_rule",
    "answer_by_id",
    "answers_by_id",
    "ask",
    "calls_as_run",
    "decision_record",
    "edited_in",
    "has_only_ids",
    "is_ruled",
    "offers",
    "read_answer",
    "read_rules",
    "remove_rule",
    "require_checkpointer",
    "revoke",
    "revoked_in",
    "rule_record",
    "rule_text",
    "settled",
    "shown",
    "standing_in",
    "visible",
]
