"""TLS in the gateway: tunnels, and certificates to terminate TLS where a credential is added.

In comes a TLS connection of a program. The connection passes untouched, or the gateway terminates TLS with a
certificate of the sandbox's own authority.
"""

from __future__ import annotations

from libs.gateway.tls.authority import Authority
from libs.gateway.tls.client_hello import HelloReader, NoClientHello
from libs.gateway.tls.tls_tunnel import tunnel

__all__ = ["Authority", "HelloReader", "NoClientHello", "tunnel"]
