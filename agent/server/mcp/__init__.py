"""Offers the agents as tools of the Model Context Protocol at `/mcp`.

In: tool calls. Out: results of runs, or the approvals that a run waits for.
"""
