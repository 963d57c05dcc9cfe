"""Reports and checks the nodes of a cluster."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as TimedOut
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from libs.sandbox.cluster import ray_client
from libs.sandbox.cluster.actor import CheckImage, Listed, Refusal, sources_digest
from libs.sandbox.errors import SandboxError

__all__ = ["NodeCheck", "NodeReport", "node_checks", "node_reports"]

_SECONDS: Final = 20.0
"""Seconds for an answer of a node."""
_START_SECONDS: Final = 60.0
"""Seconds for the first answer of an actor, which imports the project."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A node, and the sandboxes of all servers on it."""

    name: str
    sandboxes: list[Listed] = field(default_factory=list)
    problem: str = ""
    """Why some of its sandboxes cannot be listed."""


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """Whether a node can run sandboxes."""

    name: str
    room: int
    """Sandboxes that fit on the node."""
    detail: str = ""
    problem: str | None = None
    hint: str = ""


def node_reports(address: str) -> list[NodeReport]:
    """Return the nodes that take sandboxes. Raises ClusterUnavailable."""
    ray_client.connect(address)
    nodes = {node.id: NodeReport(node.name) for node in ray_client.living_nodes() if node.room}
    asked = [(node, ray_client.submit(host.listed)) for node, host in ray_client.hosts() if node in nodes]
    wait([answer for _, answer in asked], _SECONDS)
    for node, answer in asked:
        nodes[node] = _with(nodes[node], answer)
    return list(nodes.values())


def _with(report: NodeReport, answer: Future[list[Listed] | Refusal]) -> NodeReport:
    """Return the report with the sandboxes of one more server, or with its problem."""
    try:
        listed = answer.result(0)
    except TimedOut:
        return replace(report, problem="the node does not answer")
    except SandboxError as error:  # a server has ended meanwhile
        return replace(report, problem=str(error))
    if isinstance(listed, Refusal):
        return replace(report, problem=listed.message)
    return replace(report, sandboxes=report.sandboxes + listed)


def node_checks(address: str, check_image: CheckImage) -> list[NodeCheck]:
    """Check the sources, the Engine and the image of each node that takes sandboxes.

    Args:
        check_image: see `CheckImage`.

    Raises:
        ClusterUnavailable: no cluster answers.
    """
    ray_client.connect(address)
    nodes = [node for node in ray_client.living_nodes() if node.room]
    with _hosts(nodes, check_image) as hosts:
        asked = [(ray_client.submit(host.sources), ray_client.submit(host.engine)) for host in hosts]
        wait([sources for sources, _ in asked], _START_SECONDS)
        wait([engine for _, engine in asked], _SECONDS)
        return [_checked(node, *answers) for node, answers in zip(nodes, asked, strict=True)]


@contextmanager
def _hosts(nodes: list[ray_client.NodeInfo], check_image: CheckImage) -> Iterator[list[Any]]:
    """Give an actor on each node."""
    name = f"check {os.getpid()} {secrets.token_hex(4)}"
    hosts = [ray_client.make_host(node, name, check_image) for node in nodes]
    try:
        yield hosts
    finally:
        for host in hosts:
            ray_client.kill(host)


def _checked(node: ray_client.NodeInfo, sources: Any, engine: Any) -> NodeCheck:
    try:
        if sources.result(0) != sources_digest():
            problem = "it has other sources of this project than this machine"
            return NodeCheck(node.name, node.room, "", problem, "Check out the same commit there.")
        found: str | Refusal = engine.result(0)
    except TimedOut:
        return NodeCheck(node.name, node.room, "", "it does not answer", "Look at it with `ray status`.")
    except SandboxError as error:
        return NodeCheck(node.name, node.room, "", str(error), error.hint)
    if isinstance(found, Refusal):
        return NodeCheck(node.name, node.room, "", found.message, f"On the node: {found.hint}")
    return NodeCheck(node.name, node.room, f"{found}, the image is current, room for {node.room} sandboxes")
