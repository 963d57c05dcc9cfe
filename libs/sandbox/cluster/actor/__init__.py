"""The actor of a node, which starts containers there, and what the actor and the server exchange."""

from __future__ import annotations

from libs.sandbox.cluster.actor.container_order import (
    CheckImage,
    ContainerOrder,
    Entrance,
    Listed,
    Refusal,
)
from libs.sandbox.cluster.actor.link import Link, connect_link, secured
from libs.sandbox.cluster.actor.node_folders import Entry
from libs.sandbox.cluster.actor.node_host import NodeHost
from libs.sandbox.cluster.actor.sources import sources_digest

__all__ = [
    "CheckImage",
    "ContainerOrder",
    "Entrance",
    "Entry",
    "Link",
    "Listed",
    "NodeHost",
    "Refusal",
    "connect_link",
    "secured",
    "sources_digest",
]
