"""Variables by which pip and npm in the sandbox find the virtual hosts for packages."""

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


def package_variables(on: bool, *, allows_hosts: bool) -> dict[str, str]:
    """Return the variables for commands in the sandbox.

    Args:
        on: EGRESS_PACKAGES. If off, the virtual hosts answer with an error that names the setting.
        allows_hosts: EGRESS_ALLOW lists hosts, one of which may be an index. With `on` off, no variable is
            set then.
    """
    return dict(VARIABLES) if on or not allows_hosts else {}
