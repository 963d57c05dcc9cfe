"""Figures about what an agent sends to its model and asks its person: tokens, questions, calls of MCP servers."""
