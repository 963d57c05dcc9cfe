"""The virtual hosts for packages, put together; and the variables by which programs inside find them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from libs.gateway.addresses import Resolve
from libs.gateway.packages.closed import NoPackages
from libs.gateway.packages.npm_registry import NPM_HOST, NpmRegistry
from libs.gateway.packages.pip_index import PIP_HOST, PipIndex
from libs.gateway.protocol import Service

__all__ = ["VARIABLES", "package_services", "package_variables"]

VARIABLES = {
    "PIP_INDEX_URL": f"http://{PIP_HOST}/simple/",
    "PIP_TRUSTED_HOST": PIP_HOST,
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "npm_config_registry": f"http://{NPM_HOST}/",
    "npm_config_audit": "false",
    "npm_config_fund": "false",
    "npm_config_update_notifier": "false",
    "npm_config_fetch_retry_mintimeout": "1000",
    "npm_config_fetch_retry_maxtimeout": "5000",
}
"""By which pip and npm in the sandbox find them."""


def package_services(
    on: bool,
    *,
    resolve: Resolve,
    writable: Sequence[Path],
    redact: Callable[[bytes], bytes] | None = None,
) -> dict[str, Service]:
    """The virtual hosts of pip and npm.

    Args:
        on: EGRESS_PACKAGES; without it they say that it is off.
        resolve: finds the addresses of hosts that an index leads to, and refuses private ones.
        writable: folders that the sandbox can write to; no index on the host's disk may lie in one.
        redact: takes secrets out of pages.
    """
    if not on:
        return {host: NoPackages(host) for host in (PIP_HOST, NPM_HOST)}
    return {
        PIP_HOST: PipIndex(resolve=resolve, writable=writable, redact=redact),
        NPM_HOST: NpmRegistry(resolve=resolve, redact=redact),
    }


def package_variables(on: bool, *, allows_hosts: bool) -> dict[str, str]:
    """Variables of the sandbox.

    Where it is off, they lead pip and npm to be told so; but none stands in the way of an index that a person
    has put into EGRESS_ALLOW, and so `allows_hosts`.
    """
    return dict(VARIABLES) if on or not allows_hosts else {}
