"""Single calls of the Engine's API: by its socket where it has one, else by the SDK.

A call of the SDK takes a millisecond of this process, one over the bare socket a quarter of that: together a
good part of what a sandbox adds to the start of its container. Importing this module needs no Docker.
"""

from __future__ import annotations

import http.client
import json
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from libs.sandbox.explain import explain, explained

if TYPE_CHECKING:
    import docker

__all__ = ["ANSWER_SECONDS", "WORK_SECONDS", "Answered", "ask", "attach", "do", "ping"]

ANSWER_SECONDS = 20.0
"""Seconds within which an Engine tells what it knows, even while it starts. One that does not, hangs."""
WORK_SECONDS = 60.0
"""Seconds that it may take for what it has to work for, such as making a container on a busy machine."""
_REFUSED = 300
"""The first status of HTTP that does not say yes. The Engine sends one elsewhere for a path that is none."""
_STREAMS = {"stdin": "1", "stdout": "1", "stderr": "1", "stream": "1"}


@dataclass(frozen=True, slots=True)
class Answered:
    """What the Engine has answered."""

    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether it did not refuse."""
        return self.status < _REFUSED

    def json(self) -> Any:
        """Raises DockerUnavailable where it is none: somebody else has answered."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise explain(_refusal(self)) from error


def ping(client: docker.DockerClient) -> None:
    """See that the Engine answers, within ANSWER_SECONDS.

    Raises:
        DockerUnavailable: it does not.
    """
    place = _socket_of(client)
    if place is None:
        ask(client, "GET", "/_ping")
        return
    try:
        # Before every start: the first byte of an answer says enough.
        with socket.socket(socket.AF_UNIX) as engine:
            engine.settimeout(ANSWER_SECONDS)
            engine.connect(place)
            engine.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            if not engine.recv(1):
                raise ConnectionResetError("it closed the connection")
    except OSError as error:
        raise explain(error) from error


def ask(
    client: docker.DockerClient,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    seconds: float | None = None,
    **params: str,
) -> Answered:
    """One call, whatever the Engine answers.

    Args:
        path: below the version of the API; quoted.
        body: sent as JSON.
        seconds: how long one step of it may take; None is ANSWER_SECONDS.

    Raises:
        DockerUnavailable: no answer has come.
    """
    seconds = ANSWER_SECONDS if seconds is None else seconds
    api = client.api
    place = _socket_of(client)
    if place is None:
        with explained():
            address = f"{api.base_url}/v{api.api_version}{path}"
            headers = _configured(client)
            answer = api.request(method, address, params=params, json=body, headers=headers, timeout=seconds)
            return Answered(answer.status_code, answer.content)
    connection = _Connection(place, seconds)
    try:
        sent = None if body is None else json.dumps(body).encode()
        connection.request(method, _target(client, path, params), sent, _headers(client, sent))
        received = connection.getresponse()
        return Answered(received.status, received.read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise explain(error) from error
    finally:
        connection.close()


def do(
    client: docker.DockerClient,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    seconds: float | None = None,
    **params: str,
) -> Any:
    """One call that the Engine is to carry out; what it tells of it. See `ask`; `seconds`: or WORK_SECONDS.

    Raises:
        ImageMissing: it knows no such image.
        DockerUnavailable: it refuses, or no answer has come.
    """
    seconds = WORK_SECONDS if seconds is None else seconds
    answer = ask(client, method, path, body, seconds=seconds, **params)
    if not answer.ok:
        raise explain(_refusal(answer))
    return answer.json() if answer.body else None


def attach(client: docker.DockerClient, container: str) -> Any:
    """A connection to the standard streams of a container's first process: a socket, or what stands for one.

    Raises:
        DockerUnavailable: it refuses, or no answer has come.
    """
    place = _socket_of(client)
    path = f"/containers/{container}/attach"
    if place is None:
        with explained():
            return client.api.attach_socket(container, params=dict(_STREAMS))  # it adds to them
    connection = _Connection(place, WORK_SECONDS)
    headers = _headers(client, None) | {"Connection": "Upgrade", "Upgrade": "tcp"}
    try:
        connection.request("POST", _target(client, path, _STREAMS), headers=headers)
        answer = connection.getresponse()
        if answer.status == http.client.SWITCHING_PROTOCOLS and connection.sock:
            # Nothing has come behind this answer: it is asked for before the container is started.
            return connection.sock
        # What says yes has no end.
        refused = Answered(answer.status, answer.read() if answer.status >= _REFUSED else b"")
    except (OSError, ValueError, http.client.HTTPException) as error:
        connection.close()
        raise explain(error) from error
    connection.close()
    raise explain(_refusal(refused))


class _Connection(http.client.HTTPConnection):
    """HTTP over a socket of this machine."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _socket_of(client: docker.DockerClient) -> str | None:
    """The path of the Engine's socket; None where it is reached in another way."""
    adapter = client.api.get_adapter(client.api.base_url)
    return getattr(adapter, "socket_path", None)


def _target(client: docker.DockerClient, path: str, params: dict[str, str]) -> str:
    return f"/v{client.api.api_version}{path}" + (f"?{urlencode(params, quote_via=quote)}" if params else "")


def _headers(client: docker.DockerClient, body: bytes | None) -> dict[str, str]:
    return _configured(client) | ({"Content-Type": "application/json"} if body is not None else {})


def _configured(client: docker.DockerClient) -> dict[str, str]:
    """Headers that the person has configured for the Engine."""
    config: dict[str, Any] = getattr(client.api, "_general_configs", {})
    return dict(config.get("HttpHeaders") or {})


def _refusal(answer: Answered) -> Exception:
    """What the SDK would raise."""
    from docker.errors import APIError, ImageNotFound

    try:
        text = str(json.loads(answer.body)["message"])
    except (ValueError, KeyError, TypeError):
        text = answer.body.decode("utf-8", "replace").strip() or f"status {answer.status}"
    # A name that is a path is sent elsewhere; of all that is asked for here only an image's may be one.
    missing = answer.status == 301 or (answer.status == 404 and "no such image" in text.lower())
    kind = ImageNotFound if missing else APIError
    return kind(text, explanation=text)
