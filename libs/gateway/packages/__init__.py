"""Packages for programs in the sandbox, from the indexes that pip and npm on the host are set to (G3)."""

from libs.gateway.packages.closed import NoPackages
from libs.gateway.packages.npm_registry import NPM_HOST, NpmRegistry
from libs.gateway.packages.pip_index import PIP_HOST, PipIndex

__all__ = ["NPM_HOST", "PIP_HOST", "VARIABLES", "NoPackages", "NpmRegistry", "PipIndex"]

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
