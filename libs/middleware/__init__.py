"""LangChain middleware for every agent: approvals, budgets, skills, and subagents bound to the same rules.

In come the state and the calls of a graph. Out come questions to a person, limits that end a run, and texts
in the prompt.
"""
