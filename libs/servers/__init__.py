"""MCP servers as Python packages: programs in the sandbox import `servers.<name>` and call functions.

In come the servers that an `.mcp.json` names. Out come a folder of packages for the sandbox, a line about
each server for the prompt, and a virtual host of the gateway that carries calls to the servers. Connections,
processes and credentials stay on the host.
"""

from __future__ import annotations

from libs.servers.sandbox_program import MakeSandbox
from libs.servers.server_answers import Answer, CallFailed
from libs.servers.server_calls import HOST, ServerCalls
from libs.servers.server_config import ServerConfig, ServersError, read_servers
from libs.servers.servers import Servers

__all__ = [
    "HOST",
    "Answer",
    "CallFailed",
    "MakeSandbox",
    "ServerCalls",
    "ServerConfig",
    "Servers",
    "ServersError",
    "read_servers",
]
