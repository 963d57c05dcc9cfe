"""`code-agent acp`: the agent in an editor, with the Agent Client Protocol (agentclientprotocol.com).

In come requests of the editor on standard input. Out go updates and questions on standard output.
"""
