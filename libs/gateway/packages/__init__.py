"""Packages for programs in the sandbox, from the indexes that pip and npm on the host are set to (G3)."""

from libs.gateway.packages.closed import NoPackages
from libs.gateway.packages.npm_registry import NPM_HOST, NpmRegistry
from libs.gateway.packages.pip_index import PIP_HOST, PipIndex
from libs.gateway.packages.virtual_hosts import VARIABLES, package_services, package_variables

__all__ = [
    "NPM_HOST",
    "PIP_HOST",
    "VARIABLES",
    "NoPackages",
    "NpmRegistry",
    "PipIndex",
    "package_services",
    "package_variables",
]
