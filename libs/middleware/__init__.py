"""LangChain middleware for every agent: approvals, budgets, skills, and subagents bound to the same rules."""
