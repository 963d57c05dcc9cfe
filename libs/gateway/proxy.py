"""The HTTP proxy for programs in a sandbox. `conversation` serves a single connection."""

from __future__ import annotations

import logging

from libs.gateway.conversation import Conversation
from libs.gateway.gateway_errors import GatewayError
from libs.gateway.gateway_protocol import Client
from libs.gateway.gateway_streams import Stream
from libs.gateway.http import Policy

__all__ = ["Proxy"]

logger = logging.getLogger(__name__)


class Proxy(Policy):
    """An HTTP proxy with a policy. Serves any number of connections on one event loop."""

    async def aclose(self) -> None:
        """Close the virtual hosts and the log."""
        for service in self.services.values():
            if close := getattr(service, "aclose", None):
                await close()
        if self.log:
            self.log.close()

    async def serve(self, stream: Stream, client: Client) -> None:
        """Serve one connection to its end. Never raises; always closes the stream."""
        conversation = Conversation(self, stream, client)
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
