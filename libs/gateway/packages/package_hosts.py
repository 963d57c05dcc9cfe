"""The virtual hosts for packages, or an error that names EGRESS_PACKAGES."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from libs.gateway.gateway_errors import GatewayError
from libs.gateway.gateway_protocol import Service, ServiceRequest, ServiceResponse
from libs.gateway.package_environment import NPM_HOST, PIP_HOST
from libs.gateway.packages.npm_registry import NpmRegistry
from libs.gateway.packages.pip_index import PipIndex, failed_page
from libs.gateway.rules import Resolve
from libs.redaction import Redact

__all__ = ["NoPackages", "package_services"]


def package_services(
    on: bool,
    *,
    resolve: Resolve,
    writable: Sequence[Path],
    redact: Redact | None = None,
) -> dict[str, Service]:
    """Return the virtual hosts of pip and npm.

    Args:
        on: EGRESS_PACKAGES.
        resolve: looks up addresses of hosts that an index links to, and refuses private ones.
        writable: folders that the sandbox can write. No index on the host's disk may lie in one.
        redact: removes secrets from pages.
    """
    if not on:
        return {host: NoPackages(host) for host in (PIP_HOST, NPM_HOST)}
    return {
        PIP_HOST: PipIndex(resolve=resolve, writable=writable, redact=redact),
        NPM_HOST: NpmRegistry(resolve=resolve, redact=redact),
    }


class NoPackages:
    """A `Service` for EGRESS_PACKAGES=0: answers with an error that names the setting."""

    def __init__(self, host: str) -> None:
        self._host = host

    async def __call__(self, request: ServiceRequest) -> ServiceResponse:
        message = (
            f"{self._host} is closed, EGRESS_PACKAGES is 0: "
            "ask the person to set EGRESS_PACKAGES=1, or do without the package"
        )
        if self._host == PIP_HOST and request.path.startswith("/simple/"):
            return failed_page(message)
        raise GatewayError(403, message)
