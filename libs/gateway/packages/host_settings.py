"""Which indexes pip and npm on this host are set to, and how they get there: what their own code says."""

from __future__ import annotations

import base64
import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from libs.gateway.errors import GatewayError
from libs.gateway.redaction import SecretFilter

__all__ = ["Index", "NpmSettings", "PipSettings", "Reach", "npm_settings", "pip_settings", "without_secrets"]

logger = logging.getLogger(__name__)

_HERE: Final = Path(__file__).parent
_PATIENCE: Final = 60.0
"""Seconds in which they must have said it."""


@dataclass(frozen=True, slots=True)
class Index:
    """Where packages are: an index of pip's, a page or folder of its find-links, a registry of npm's."""

    url: str
    """Without user and password."""
    authorization: str = field(default="", repr=False)
    """The header that it is shown; may be empty."""

    @property
    def secret(self) -> str:
        """The password or token in that header; may be empty."""
        kind, _, value = self.authorization.partition(" ")
        if kind != "Basic":
            return value
        try:
            return base64.b64decode(value).decode("utf-8", "replace").partition(":")[2]
        except ValueError:
            return value


@dataclass(frozen=True, slots=True)
class Reach:
    """How a program of the host reaches its indexes."""

    trusted: tuple[str, ...] = ()
    """Files, and folders, of certificates that it trusts besides the system's."""
    certificates: str = ""
    """More of them, in PEM."""
    proxy: str | None = None
    """Its proxy; None: the environment's."""
    direct: bool = False
    """Whether it uses no proxy, the environment's neither."""
    no_proxy: str = ""
    """Hosts, comma-separated, that it reaches without its own proxy."""


@dataclass(frozen=True, slots=True)
class PipSettings:
    """What pip on this host is set to."""

    indexes: tuple[Index, ...]
    pages: tuple[Index, ...] = ()
    """Its find-links: pages, folders, files."""
    reach: Reach = Reach()


@dataclass(frozen=True, slots=True)
class NpmSettings:
    """What npm on this host is set to."""

    registry: Index
    scopes: Mapping[str, Index]
    """Registries of scopes that have one of their own: `@scope` -> registry."""
    reach: Reach = Reach()


def pip_settings() -> PipSettings:
    """Ask the pip of this Python, the one that fetches packages for the image. Takes half a second.

    Raises:
        GatewayError: 502, it does not say.
    """
    said = _said("pip", [sys.executable, "-P", str(_HERE / "ask_pip.py")])
    reach = Reach(trusted=tuple(said["trusted"]), proxy=said["proxy"], direct=said["direct"])
    return PipSettings(
        tuple(_of_pip(index) for index in said["indexes"]),
        tuple(_of_pip(page) for page in said["pages"]),
        reach,
    )


def _of_pip(said: Mapping[str, str | None]) -> Index:
    user, password = said["user"] or "", said["password"] or ""
    encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
    return Index(str(said["url"]), f"Basic {encoded}" if user or password else "")


def npm_settings() -> NpmSettings:
    """Ask the npm of this host. Takes half a second.

    Raises:
        GatewayError: 502, there is none, or it does not say.
    """
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        raise GatewayError(
            502, "npm.gateway leads to the registry that npm on the host is set to, and the host has no npm"
        )
    beside = Path(npm).resolve()
    # Where the program lies in the package, and where a wrapper of Windows lies beside it.
    folders = (beside.parent.parent, beside.parent / "node_modules" / "npm")
    folder = next((folder for folder in folders if (folder / "lib" / "npm.js").is_file()), folders[0])
    said = _said("npm", [node, "--eval", (_HERE / "ask_npm.js").read_text(), str(folder)])
    return NpmSettings(
        Index(**said["registry"]),
        {scope: Index(**registry) for scope, registry in said["scopes"].items()},
        Reach(tuple(said["trusted"]), said["certificates"], said["proxy"], no_proxy=said["no_proxy"]),
    )


def without_secrets(indexes: Iterable[Index]) -> Callable[[bytes], bytes]:
    """Takes the credentials of indexes out of what they answer."""
    return SecretFilter(
        {f"the credentials of {index.url}": index.secret for index in indexes if index.secret}
    )


def _said(program: str, command: Sequence[str]) -> dict[str, Any]:
    """What it prints. What goes wrong stands in the log alone: a line of a settings file may be in it."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE, stdin=subprocess.DEVNULL, check=True
        )
        said: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        last = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-3:]
        logger.warning(
            "%s on this host does not say which indexes it is set to: %s", program, " | ".join(last)
        )
        raise GatewayError(
            502,
            f"{program} on the host does not say what it is set to: the log of the application says why",
        ) from None
    return said
