"""MCP servers as Python packages in the sandbox.

The host keeps connections and secrets; code in the sandbox calls functions.
"""
