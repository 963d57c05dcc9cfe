"""What the routes about a thread share: its name, its turns, and the refusals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from starlette.requests import Request

from agent.run import Runtime, ThreadGone, ThreadPoints, WrongPoint
from agent.server.json_exchange import Refused
from libs.persistence import CheckpointerUnavailable
from libs.sandbox import FileFailed, SandboxError
from libs.workspace import ContentMissing, ManifestMissing, SnapshotsUnavailable
from libs.workspace.history import NoCapture

__all__ = ["points_of", "refusing", "runtime_of", "thread_of"]


def runtime_of(request: Request) -> Runtime:
    """Return the runtime of this server."""
    runtime: Runtime = request.app.state.runs.runtime
    return runtime


def thread_of(request: Request) -> str:
    """Return the path's thread id as its sandbox is named: a UUID can be written in several ways."""
    name = str(request.path_params["thread_id"])
    try:
        return str(UUID(name))
    except ValueError:  # of `code-agent run`
        return name


async def points_of(request: Request, thread: str) -> ThreadPoints:
    """Return the turns of a thread. Raises WrongPoint if no run has begun in the thread."""
    try:
        return await runtime_of(request).points(thread)
    except WrongPoint:  # the guards know that there is such a thread
        raise WrongPoint("No run has begun in this thread.") from None


@asynccontextmanager
async def refusing() -> AsyncIterator[None]:
    """Turn errors of turns, snapshots and sandboxes into refusals: 400, 404, 410 and 503."""
    try:
        yield
    except ThreadGone as gone:
        raise Refused(404, str(gone)) from None
    except WrongPoint as wrong:
        raise Refused(400, str(wrong)) from None
    except (NoCapture, ManifestMissing, ContentMissing) as lost:
        raise Refused(410, f"{lost} {lost.hint}") from None
    except (SnapshotsUnavailable, SandboxError, CheckpointerUnavailable) as error:
        raise Refused(503, f"{error} {error.hint}") from error
    except FileFailed as error:
        raise Refused(503, f"The files cannot be read or written: {error}") from error
