"""Reads the settings of pip and npm on this host: indexes, credentials, certificates, proxy.

pip prints its settings. npm prints no credentials, so `ask_npm.js` loads them with npm's own code.
"""

from __future__ import annotations

import ast
import base64
import ipaddress
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from libs.gateway.gateway_errors import GatewayError
from libs.redaction import SecretFilter

__all__ = [
    "Index",
    "NetworkSettings",
    "NpmSettings",
    "PipSettings",
    "npm_settings",
    "pip_settings",
    "without_secrets",
]

logger = logging.getLogger(__name__)

T = TypeVar("T")

_PIP: Final = (sys.executable, "-P", "-m", "pip")
_HELP: Final = (*_PIP, "--no-color", "install", "--help")
"""Prints, among others, the index that pip uses without settings."""
_HERE: Final = Path(__file__).parent
_PATIENCE: Final = 60.0
"""Time-out of pip and npm, in seconds."""


@dataclass(frozen=True, slots=True)
class Index:
    """An index of pip, a page or folder of find-links, or a registry of npm."""

    url: str
    """URL without user and password."""
    authorization: str = field(default="", repr=False)
    """Value of the Authorization header; may be empty."""

    @property
    def secret(self) -> str:
        """The password or token in the header; may be empty."""
        kind, _, value = self.authorization.partition(" ")
        if kind != "Basic":
            return value
        try:
            return base64.b64decode(value).decode("utf-8", "replace").partition(":")[2]
        except ValueError:
            return value


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """How pip or npm on the host connects to its indexes."""

    trusted: tuple[str, ...] = ()
    """Files and folders of certificates to trust besides those of the system."""
    certificates: str = ""
    """More certificates, in PEM."""
    proxy: str | None = None
    """The proxy; None: the proxy of the environment."""
    direct: bool = False
    """Whether no proxy is used, not even that of the environment."""
    no_proxy: str = ""
    """Comma-separated hosts that are reached without `proxy`."""


@dataclass(frozen=True, slots=True)
class PipSettings:
    """Settings of pip on this host."""

    indexes: tuple[Index, ...]
    pages: tuple[Index, ...] = ()
    """find-links: pages, folders, files."""
    network: NetworkSettings = NetworkSettings()


@dataclass(frozen=True, slots=True)
class NpmSettings:
    """Settings of npm on this host."""

    registry: Index
    scopes: Mapping[str, Index]
    """Registries of single scopes: `@scope` -> registry."""
    network: NetworkSettings = NetworkSettings()


def pip_settings() -> PipSettings:
    """Return the settings of this Python's pip, which also fetches packages for the image. Takes 0.5 to 1 s.

    Raises:
        GatewayError: 502, pip fails.
    """
    options = _ask("pip", [*_PIP, "config", "list"], _pip_options)
    indexes = [options.get("index-url") or _ask("pip", _HELP, _default_index)]
    indexes += options.get("extra-index-url", "").split()
    trusted = [os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE"), options.get("cert")]
    proxy = options.get("proxy")
    return PipSettings(
        () if _is_on(options, "no-index") else _of_pip(indexes, options),
        _of_pip(options.get("find-links", "").split(), options),
        NetworkSettings(
            trusted=tuple(dict.fromkeys(filter(None, trusted))),
            proxy=proxy or None,
            direct=proxy == "" or _is_on(options, "no-proxy-env"),
        ),
    )


def _pip_options(printed: str) -> dict[str, str]:
    """Parse lines such as `global.index-url='https://…'` into option -> value; later sections win."""
    lines = [line.partition("=") for line in printed.splitlines()]
    return {
        key.removeprefix(section): ast.literal_eval(value)
        for section in ("global.", "install.", ":env:.")
        for key, _, value in lines
        if key.startswith(section)
    }


def _default_index(printed: str) -> str:
    """Return the default of `--index-url` in pip's help."""
    found = re.search(r"--index-url\s.*?\(default\s+(\S+)\)", printed, re.DOTALL)
    if found is None:
        raise ValueError("the help of pip shows no default of --index-url")
    return found[1]


def _is_on(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() in {"1", "true", "t", "yes", "y", "on"}


def _of_pip(locations: Sequence[str], options: Mapping[str, str]) -> tuple[Index, ...]:
    """Return the indexes that pip would use. Plain http counts only for trusted hosts."""
    found = []
    for location in locations:
        path = Path(location).expanduser()
        url = urlsplit(path.absolute().as_uri() if path.exists() else location)
        if url.scheme not in ("http", "https"):
            found.append(Index(url.geturl()))
        elif url.scheme == "https" or _is_trusted(url, options.get("trusted-host", "").split()):
            bare = url._replace(netloc=url.netloc.rpartition("@")[2])
            user, password = _credentials(url, bare.geturl())
            encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
            found.append(Index(bare.geturl(), f"Basic {encoded}" if user or password else ""))
    return tuple(found)


def _is_trusted(url: SplitResult, trusted: Sequence[str]) -> bool:
    """Return whether pip uses a host without TLS: this machine, and hosts in `trusted-host`."""
    host = url.hostname or ""
    if {host, f"{host}:{url.port}"} & {"localhost", *trusted}:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _credentials(url: SplitResult, bare: str) -> tuple[str, str]:
    """Return user and password of an index, from the places that pip uses: URL and .netrc."""
    from requests.utils import get_netrc_auth

    user, password = unquote(url.username or ""), unquote(url.password or "")
    in_file = None if url.password is not None else get_netrc_auth(bare)
    return in_file or (user, password)


def npm_settings() -> NpmSettings:
    """Return the settings of this host's npm. Takes 0.5 s.

    Raises:
        GatewayError: 502, npm is missing or fails.
    """
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        raise GatewayError(
            502, "npm.gateway leads to the registry that npm on the host is set to, and the host has no npm"
        )
    folder = Path(npm).resolve().parent.parent  # the program lies in the package
    answer = _ask("npm", [node, "--eval", (_HERE / "ask_npm.js").read_text(), str(folder)], json.loads)
    return NpmSettings(
        Index(**answer["registry"]),
        {scope: Index(**registry) for scope, registry in answer["scopes"].items()},
        NetworkSettings(
            tuple(answer["trusted"]), answer["certificates"], answer["proxy"], no_proxy=answer["no_proxy"]
        ),
    )


def without_secrets(indexes: Iterable[Index]) -> SecretFilter:
    """Return a filter that removes the credentials of indexes."""
    return SecretFilter(
        {f"the credentials of {index.url}": index.secret for index in indexes if index.secret}
    )


def _ask(program: str, command: Sequence[str], read: Callable[[str], T]) -> T:
    """Run a command and parse its output. Details of errors go only to the log: they may contain secrets."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            stdin=subprocess.DEVNULL,
            check=True,
            env={**os.environ, "COLUMNS": "1000"},  # else pip breaks long words of its help
        )
        return read(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        last = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-3:]
        logger.warning(
            "%s on this host does not say which indexes it is set to: %s", program, " | ".join(last)
        )
        raise GatewayError(
            502,
            f"{program} on the host does not say what it is set to: the log of the application says why",
        ) from None
