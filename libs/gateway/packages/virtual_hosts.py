"""The virtual hosts for packages, put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from libs.gateway.addresses import Resolve
from libs.gateway.packages.closed import NoPackages
from libs.gateway.packages.npm_registry import NpmRegistry
from libs.gateway.packages.pip_index import PipIndex
from libs.gateway.packages.variables import NPM_HOST, PIP_HOST
from libs.gateway.protocol import Service

__all__ = ["package_services"]


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
