"""Proxy settings, trusted certificates, and the reason of a refused request."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["proxy_arguments", "proxy_of", "refusal", "trust"]

_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
_PUBLIC = Path("/usr/share/ca-certificates/mozilla")
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_MAX_HEAD = 65_536
_SECONDS = 5


def proxy_of(scheme: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the proxy of the environment for http or https, or ""."""
    names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    return next((environment[name] for name in names if environment.get(name)), "")


def proxy_arguments(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the arguments of Chromium for the proxy and for the hosts without proxy.

    By default Chromium uses no proxy for 127.0.0.0/8 and 169.254.0.0/16; `<-loopback>` removes this.
    """
    servers = {scheme: proxy_of(scheme, environment) for scheme in ("http", "https")}
    if not any(servers.values()):
        return []
    besides = (environment.get("no_proxy") or environment.get("NO_PROXY") or "").split(",")
    hosts = [host.strip() for host in besides if host.strip() and host.count(":") < 2]
    rules = ";".join(f"{scheme}={server}" for scheme, server in servers.items() if server)
    return [
        f"--proxy-server={rules}",
        f"--proxy-bypass-list={';'.join(['<-loopback>', *_LOOPBACK, *hosts])}",
    ]


def trust(home: Path) -> None:
    """Make Chromium trust the bundle of SSL_CERT_FILE, or of the system, as other programs do.

    Chromium contains the public authorities, and reads other authorities from an NSS database in its home.
    """
    bundle = Path(os.environ.get("SSL_CERT_FILE") or _BUNDLE)
    public = {body for file in _PUBLIC.glob("*.crt") for body in _bodies(file)}
    more = [body for body in _bodies(bundle) if body not in public]
    if not more:
        return
    database = home / ".pki" / "nssdb"
    database.mkdir(parents=True)
    name = f"sql:{database}"
    _certutil("-N", "-d", name, "--empty-password")
    for number, body in enumerate(more):
        file = home / "authority.pem"
        file.write_text(ssl.DER_cert_to_PEM_cert(body))
        _certutil("-A", "-d", name, "-n", f"authority {number}", "-t", "C,,", "-i", str(file))


def _certutil(*arguments: str) -> None:
    # A certificate that certutil cannot read is not trusted by other programs either.
    subprocess.run(["certutil", *arguments], check=False, capture_output=True, stdin=subprocess.DEVNULL)


def _bodies(bundle: Path) -> list[bytes]:
    """Return the certificates of a bundle as DER bytes."""
    found = []
    with contextlib.suppress(OSError):
        for part in bundle.read_text("utf-8", "replace").split(_BEGIN)[1:]:
            with contextlib.suppress(ValueError):
                found.append(ssl.PEM_cert_to_DER_cert(_BEGIN + part.split(_END)[0] + _END))
    return [body for body in dict.fromkeys(found) if body]  # invalid base64 is read as b""


async def refusal(url: str) -> str:
    """Return the reason of the proxy for refusing an https host, which Chromium does not show."""
    proxy, asked = urlsplit(proxy_of("https")), urlsplit(url)
    target = f"{asked.hostname}:{asked.port or 443}"
    try:
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_connection(proxy.hostname, proxy.port or 80, limit=_MAX_HEAD)
            try:
                writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
                status = (await reader.readline()).decode("utf-8", "replace").split(None, 2)
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError):
        return ""
    return status[2].strip() if len(status) == 3 and status[1] != "200" else ""
