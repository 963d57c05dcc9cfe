"""`code-agent acp`: the agent in an editor, through the Agent Client Protocol (agentclientprotocol.com)."""
