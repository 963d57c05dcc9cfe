"""Limits of one run: model calls, seconds of work, tokens.

In: the calls of a run and their tokens. Out: the status of the limit that ends the run.
"""

from __future__ import annotations

from libs.middleware.budget.budget_middleware import BudgetMiddleware
from libs.middleware.budget.run_budget import Budget, BudgetStatus, Meter, Spent

__all__ = ["Budget", "BudgetMiddleware", "BudgetStatus", "Meter", "Spent"]
