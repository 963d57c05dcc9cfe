"""Joins a Ray cluster, and bounds the time for its answers."""

from __future__ import annotations

import logging
import os
import socket
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TimedOut
from typing import Final, TypeVar

from libs.sandbox.cluster.actor import secured
from libs.sandbox.errors import ClusterUnavailable

__all__ = ["ASK_SECONDS", "NAMESPACE", "answered", "begun", "connect", "unavailable"]

NAMESPACE: Final = "code-agent"
"""Ray's namespace of the actors of all servers."""
ASK_SECONDS: Final = 20.0
"""Seconds for an answer of the head."""
_HEAD_SECONDS: Final = 5.0
"""Seconds for a connection to the head, for the handshake of TLS, and for the first byte of the answer."""
_GREETING: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How a client of gRPC begins: RFC 9113, 3.4. Empty settings follow."""
_SHOWN_CHARS: Final = 300
"""Characters of an error of Ray that are shown."""
_FOREVER: Final = 10**9
"""Seconds without the head after which Ray would end this program."""
_HINT: Final = "`ray status` shows the nodes: see docs/cluster.md."

_connecting = threading.Lock()
Result = TypeVar("Result")


def connect(address: str) -> bool:
    """Join a cluster as a program that offers nothing, unless this process has joined it.

    A head that was started again counts as another cluster, which this process joins, too.

    Args:
        address: `host:port` of the cluster's head, or `auto` for the node that runs on this machine.

    Returns:
        Whether the cluster was joined now. Actors and places of an earlier cluster are gone.

    Raises:
        ClusterUnavailable: Ray is not installed, or no cluster answers.
    """
    # Read by Ray when it is imported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray would print the last lines of the log of a dead node to this program's standard output.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".*")
    # Ray would end this program after a minute without the head, and running sandboxes with it.
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", str(_FOREVER))
    # Ray would try 20 times, for half a minute each, to reach a head that does not answer.
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "1")
    try:
        import ray
    except ImportError:
        raise ClusterUnavailable(
            "Ray is not installed.", hint="Run `make cluster`, or install the extra `cluster`."
        ) from None
    # Ray warns about what does not matter here, such as signals of a program that it does not own.
    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        # Outside of the lock: callers wait side by side for a head that does not answer.
        own = _own_address(ray.get_runtime_context().gcs_address if ray.is_initialized() else address)
        with _connecting:
            if ray.is_initialized():
                if _knows_us():
                    return False
                ray.shutdown()
            ray.init(
                address,
                namespace=NAMESPACE,
                # Otherwise Ray takes the address from which this machine reaches the internet.
                _node_ip_address=own,
                log_to_driver=False,
                configure_logging=False,
            )
    except (ray.exceptions.RayError, ConnectionError, OSError, ValueError, RuntimeError) as error:
        # Several lines, if the versions of Ray or Python differ from those of the cluster.
        why = textwrap.shorten(str(error), _SHOWN_CHARS, placeholder=" …") or type(error).__name__
        raise ClusterUnavailable(
            f"No Ray cluster answers at {address!r}: {why}",
            hint="Start Ray here and join the cluster, with the same RAY_USE_TLS: see docs/cluster.md.",
        ) from error
    return True


def _own_address(head: str) -> str | None:
    """Return the address of this machine from which it reaches the head. None: Ray finds it.

    Raises:
        OSError: nothing answers at the head's address, or one side uses TLS and the other does not, or a
            certificate is refused.
    """
    host, _, port = head.rpartition(":")
    if not port.isdigit():
        return None  # `auto`
    # Most calls of Ray would wait for a head that is gone until it is back.
    with socket.create_connection((host, int(port)), _HEAD_SECONDS) as probe:
        own = str(probe.getsockname()[0])
        with secured(probe, host) as greeted:
            greeted.sendall(_GREETING)
            if not greeted.recv(1):
                raise ConnectionError("the connection was closed")
    return None if own.startswith("127.") else own


def _knows_us() -> bool:
    """Return whether the head is the one that this process has joined, and was not started again since.

    Raises:
        ClusterUnavailable: the head does not answer.
    """
    import ray

    try:
        answered(ray.util.list_named_actors, ASK_SECONDS)
    except ClusterUnavailable as error:
        if isinstance(error.__cause__, ray.exceptions.AuthenticationError):
            return False
        raise
    return True


def unavailable(error: BaseException) -> ClusterUnavailable:
    """Return our error for an error of Ray."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return ClusterUnavailable(f"Ray says: {lines[0]}", hint=_HINT)


def begun(work: Callable[[], Result]) -> Future[Result]:
    """Run a call of Ray in a thread, because it would not return while the head is gone."""
    answer: Future[Result] = Future()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where the answer is awaited
            answer.set_exception(error)

    threading.Thread(target=run, name="ray-call", daemon=True).start()
    return answer


def answered(
    work: Callable[[], Result], seconds: float, *, too_late: Callable[[Result], object] = lambda _: None
) -> Result:
    """Return the result of a call of Ray.

    Args:
        too_late: is called with a result that comes after the time, to give it back.

    Raises:
        ClusterUnavailable: there is no result in time, or the call has failed.
    """
    from ray.exceptions import RayError

    call = begun(work)
    try:
        return call.result(seconds)
    except TimedOut:
        call.add_done_callback(lambda done: done.exception() or too_late(done.result()))
        raise ClusterUnavailable(
            f"The head of the cluster has not answered for {seconds:.0f} seconds.", hint=_HINT
        ) from None
    except RayError as error:
        raise unavailable(error) from error
