"""Runs sandboxes on the nodes of a Ray cluster. Needs the extra `cluster`.

In come the same limits, folders and threads as for sandboxes on this machine. Ray chooses a node for each
sandbox. An actor on the node starts the container and carries its frames, so out comes the same sandbox.
"""

from __future__ import annotations

from libs.sandbox.cluster.actor import CheckImage
from libs.sandbox.cluster.cluster import Cluster
from libs.sandbox.cluster.cluster_nodes import NodeCheck, NodeReport, node_checks, node_reports
from libs.sandbox.cluster.cluster_pool import ClusterPool
from libs.sandbox.cluster.cluster_sandbox import ClusterSandbox
from libs.sandbox.cluster.mirror import Folder
from libs.sandbox.cluster.ray_connection import connect

__all__ = [
    "CheckImage",
    "Cluster",
    "ClusterPool",
    "ClusterSandbox",
    "Folder",
    "NodeCheck",
    "NodeReport",
    "connect",
    "node_checks",
    "node_reports",
]
