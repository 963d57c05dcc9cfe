"""Figures about agents: tokens of requests, questions to a person, calls of MCP servers."""
