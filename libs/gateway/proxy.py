"""The proxy that programs in a sandbox speak to. What it does with a connection is in `conversation`."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping

from libs.gateway.addresses import Resolve, resolve_public
from libs.gateway.conversation import Conversation
from libs.gateway.errors import GatewayError
from libs.gateway.limits import Timeouts
from libs.gateway.policy import Policy
from libs.gateway.protocol import Authority, Client, Credentials, Service, ServiceRequest, ServiceResponse
from libs.gateway.request_log import RequestLog
from libs.gateway.rules import Rules
from libs.gateway.streams import Stream

__all__ = ["Authority", "Client", "Credentials", "Proxy", "Service", "ServiceRequest", "ServiceResponse"]

logger = logging.getLogger(__name__)


class Proxy:
    """What may be reached, and how. Immutable; serves any number of connections on one event loop."""

    def __init__(
        self,
        *,
        rules: Rules,
        resolve: Resolve = resolve_public,
        credentials: Credentials | None = None,
        services: Mapping[str, Service] = {},
        log: RequestLog | None = None,
        tls: ssl.SSLContext | None = None,
        timeouts: Timeouts = Timeouts(),
    ) -> None:
        """Put together what decides.

        Args:
            rules: what may be reached.
            resolve: finds addresses, and refuses private ones.
            credentials: hosts that are shown a secret, over https.
            services: virtual hosts, reached over http, that need no rule.
            log: is told of every request and tunnel.
            tls: verifies hosts that have a credential; where it is not given, with what the machine trusts.
            timeouts: how long is waited.
        """
        self._policy = Policy(rules, resolve, credentials, dict(services), log, tls, timeouts)
        if credentials is not None:
            _ = self._policy.tls  # loaded now, and not while others wait for the loop

    async def aclose(self) -> None:
        """Close what its virtual hosts hold open, and the log."""
        for service in self._policy.services.values():
            if close := getattr(service, "aclose", None):
                await close()
        if self._policy.log:
            self._policy.log.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client: Client) -> None:
        """Serve one connection to its end. Never raises; always closes the writer.

        Args:
            reader: what a program in the sandbox sends.
            writer: the same connection.
            client: whose connection it is. Nothing that comes over it has a say in that.
        """
        conversation = Conversation(self._policy, Stream(reader, writer), client)
        try:
            with client.limits.connection():
                try:
                    await conversation.run()
                finally:
                    await conversation.close()
        except GatewayError as error:
            await conversation.turn_away(error)
        except OSError as error:
            logger.debug("a program of %s is gone: %s", client.sandbox, error)
        except Exception:
            logger.exception("a request of %s ended in an error of the gateway's own", client.sandbox)
