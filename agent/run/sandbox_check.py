"""Checks before a run that its sandboxes can start."""

from __future__ import annotations

from contextlib import closing

from agent.settings import Settings

__all__ = ["require_cluster", "require_engine"]


def require_engine(settings: Settings) -> None:
    """Check that the Engine of this machine answers and has the image.

    Raises:
        DockerUnavailable, ImageMissing: the error says what to do.
    """
    from libs.backends.docker import require_image
    from libs.sandbox.docker import connect, explained

    with closing(connect(timeout=10)) as client, explained():
        require_image(client, settings.image)


def require_cluster(settings: Settings) -> None:
    """Check that the cluster of SANDBOX_CLUSTER answers, and join it.

    Raises:
        ClusterUnavailable: the error says what to do.
    """
    from libs.sandbox.cluster import connect

    connect(settings.sandbox_cluster or "auto")
