"""Packages for programs in the sandbox, from the indexes that pip and npm on the host use.

In come requests of pip and npm in the sandbox. Out come pages and files, without credentials of the indexes.
"""

from __future__ import annotations

from libs.gateway.packages.package_hosts import package_services

__all__ = ["package_services"]
