"""Builds the MCP servers of MCP_CONFIG, their virtual host in the gateway, and their lines in prompts."""

from __future__ import annotations

import atexit
import functools
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse

from agent.parts.approval_rules import checked_rules
from agent.parts.egress_gateway import doors
from agent.prompts import servers_section
from agent.secrets import secret_filter
from agent.settings import PACKAGES, Settings, mcp_servers
from libs.middleware.approvals import RulesError, RulesFile
from libs.middleware.prompt_section import with_section
from libs.redaction import SecretFilter
from libs.sandbox.host import blocking

# The MCP SDK is imported where servers are configured: it takes half a second.
if TYPE_CHECKING:
    from libs.gateway import Service
    from libs.sandbox import Sandbox
    from libs.sandbox.host import Door
    from libs.servers import ServerConfig, Servers

__all__ = ["ShowsServers", "package_folder", "server_services", "servers_of", "servers_text", "shows_servers"]


def package_folder(settings: Settings) -> Path | None:
    """Return the folder of the servers' packages. None: MCP_CONFIG is unset."""
    if settings.mcp_config is None:
        return None
    place = str(settings.mcp_config.absolute())
    return PACKAGES.absolute() / hashlib.sha256(place.encode()).hexdigest()[:12]


def servers_of(settings: Settings) -> Servers | None:
    """Return the servers, which all graphs of this process share. None: MCP_CONFIG is unset.

    Reads the file, so a graph calls this when it is built, not in a run.

    Raises:
        SettingsError: the file is wrong.
    """
    folder = package_folder(settings)
    if folder is None:
        return None
    make = _ServerSandboxes(folder.with_name(f"{folder.name}-workspaces"), settings)
    return _made(mcp_servers(settings), folder, secret_filter(settings), make)


async def servers_text(servers: Servers | None) -> str:
    """Return the section of a prompt about the servers; "" for none. Waits for servers that start."""
    return servers_section(await servers.lines()) if servers else ""


def server_services(settings: Settings) -> dict[str, Service]:
    """Return the virtual host through which programs call the servers' tools; none without MCP_CONFIG."""
    servers = servers_of(settings)
    if servers is None:
        return {}
    from libs.servers import HOST, ServerCalls

    ruled = functools.partial(_ruled, checked_rules(settings))
    return {HOST: ServerCalls(servers, ruled, secret_filter(settings))}


def shows_servers(settings: Settings) -> list[AgentMiddleware[Any, Any, Any]]:
    """Return the middleware that adds the section about the servers; none without MCP_CONFIG."""
    servers = servers_of(settings)
    return [ShowsServers(servers)] if servers else []


class ShowsServers(AgentMiddleware[Any, Any, Any]):
    """Adds a line about each MCP server to the system prompt of every model call."""

    def __init__(self, servers: Servers) -> None:
        super().__init__()
        self._servers = servers

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        return handler(with_section(request, blocking(servers_text)(self._servers)))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        return await handler(with_section(request, await servers_text(self._servers)))


@dataclass(frozen=True)
class _ServerSandboxes:
    """Makes the sandboxes of servers. The servers are shared, so the first settings of a process count."""

    workspaces: Path
    settings: Settings = field(compare=False)

    def __call__(self, name: str, replaced: Callable[[Door], Door]) -> Sandbox:
        from libs.backends.docker import require_image
        from libs.sandbox.docker import WORKSPACE_LABEL, DockerSandbox

        settings = self.settings
        egress = doors(settings)  # a gateway without the servers
        return DockerSandbox(
            self.workspaces / name,
            image=settings.image,
            name="code-execution-agent",
            limits=settings.limits,
            runtime=settings.sandbox_runtime,
            check_image=functools.partial(require_image, name=settings.image),
            labels={WORKSPACE_LABEL: str(settings.workspace_dir.resolve())},
            egress=lambda: replaced(egress()),
        )


@functools.cache
def _made(
    configs: tuple[ServerConfig, ...], folder: Path, redact: SecretFilter | None, make: _ServerSandboxes
) -> Servers:
    from libs.servers import Servers

    servers = Servers(configs, folder, redact=redact or SecretFilter({}), make=make)
    atexit.register(servers.close)
    return servers


def _ruled(file: RulesFile, tool: str) -> Literal["allow", "ask", "deny", ""]:
    """Return what the rules file says about a tool of a server; "" if no rule is about the tool."""
    try:
        verdict = file.rules().verdict(f"mcp:{tool}", {})
    except RulesError:
        return "deny"  # nothing is called before a person has mended the file
    return verdict.decision if verdict.rules else ""
