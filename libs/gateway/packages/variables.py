"""The virtual hosts for packages, by name, and the variables by which programs inside find them."""

from __future__ import annotations

from typing import Final

__all__ = ["NPM_HOST", "PIP_HOST", "VARIABLES", "package_variables"]

PIP_HOST: Final = "pip.gateway"
NPM_HOST: Final = "npm.gateway"

VARIABLES: Final = {
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


def package_variables(on: bool, *, allows_hosts: bool) -> dict[str, str]:
    """Variables of the sandbox.

    Where it is off, they lead pip and npm to be told so; but none stands in the way of an index that a person
    has put into EGRESS_ALLOW, and so `allows_hosts`.
    """
    return dict(VARIABLES) if on or not allows_hosts else {}
