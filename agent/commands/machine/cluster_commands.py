"""Lists and checks the nodes of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from agent.commands.machine.doctor import Check
from agent.settings import Settings
from libs.backends.docker import require_image
from libs.sandbox import SandboxError, program

__all__ = ["NodeSandbox", "cluster_checks", "cluster_sandboxes", "join_help"]


@dataclass(frozen=True, slots=True)
class NodeSandbox:
    """A sandbox on a node, or a node without a sandbox."""

    node: str
    name: str
    """Empty: the node has no sandbox."""
    state: str
    """`in use`, `spare`, `no sandbox`, or why the sandboxes of the node cannot be listed."""
    memory: int = 0
    """Bytes."""
    thread: str = ""


def cluster_sandboxes(settings: Settings) -> list[NodeSandbox]:
    """Return the sandboxes of all servers, by node; a node without sandboxes once. Empty without a cluster.

    Raises:
        ClusterUnavailable: no cluster answers.
    """
    if not settings.sandbox_cluster:
        return []
    from libs.sandbox.cluster import node_reports

    rows: list[NodeSandbox] = []
    for node in node_reports(settings.sandbox_cluster):
        rows += [
            NodeSandbox(
                node.name, each.container, "in use" if each.thread else "spare", each.memory, each.thread
            )
            for each in node.sandboxes
        ]
        if node.problem or not node.sandboxes:
            rows.append(NodeSandbox(node.name, "", node.problem or "no sandbox"))
    return rows


def cluster_checks(settings: Settings) -> list[Check]:
    """Check each node: its Engine, its image, its room and its sources of this project.

    Ray checks its own version: a machine with another version of Ray or Python cannot join.
    """
    if not settings.sandbox_cluster:
        return []
    from libs.sandbox.cluster import node_checks

    try:
        check_image = partial(require_image, name=settings.image)
        found = node_checks(settings.sandbox_cluster, check_image)
    except SandboxError as error:
        return [Check("cluster", False, str(error), error.hint)]
    checks = [
        Check(f"node {each.name}", each.problem is None, str(each.problem or each.detail), each.hint)
        for each in found
    ]
    room = sum(each.room for each in found if each.problem is None)
    machines = f"{len(found)} machine{'s' * (len(found) != 1)}"
    enough = Check("cluster", True, f"room for {room} sandboxes on {machines}")
    none = Check("cluster", False, "no node takes sandboxes", f"Join one: {join_help('HEAD')}")
    return [enough if room else none, *checks]


def join_help(head: str) -> str:
    """Return the command that joins this machine to a cluster."""
    ray = f"RAY_AUTH_MODE=token RAY_AUTH_TOKEN=TOKEN {program().removesuffix('code-agent')}ray"
    return f"{ray} start --address={head}:6379 --num-cpus=0 --resources='{{\"sandbox\": 50}}'"
