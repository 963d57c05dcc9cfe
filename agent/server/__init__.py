"""Everything around LangGraph's server: guards, our own routes, durable threads, MCP.

In: HTTP requests. Out: answers of our routes, or the request goes on to LangGraph's server.
`agent.http_app` assembles the parts.
"""
