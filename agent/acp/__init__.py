"""`code-agent acp`: the agent in an editor, with the Agent Client Protocol (agentclientprotocol.com)."""
