"""Encodes requests for the channel, and refuses invalid requests before they are sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from libs.sandbox.host.requests.file_arguments import CHANGES, check_arguments, encoded
from libs.sandbox.limits import MAX_TIMEOUT, SandboxLimits
from libs.sandbox.protocol import FileFailed
from libs.sandbox.wire.frames import MAX_PAYLOAD, REQUEST, Worker
from libs.sandbox.wire.messages import BlockRequest, RunRequest

__all__ = [
    "block_request",
    "encoded_variables",
    "file_asked",
    "file_request",
    "run_asked",
    "run_request",
    "tree_request",
]

MAX_COMMAND = 16 * 1024 * 1024
"""Bytes of the longest command."""
MAX_VARIABLE = 128 * 1024 - 1
"""Bytes of the longest variable, as `name=value`: MAX_ARG_STRLEN of Linux, see execve(2)."""
MAX_VARIABLE_BYTES = 1024 * 1024
"""Bytes of all additional variables of a command. Linux allows 2 MB, a quarter of the stack, for all
variables and arguments."""
MOST_VARIABLES = 65_535
"""Most additional variables of a command. `RunRequest` has two bytes for their number."""
MAX_SESSION = 65_535
"""Bytes of the longest name of a session."""
_FILE_SECONDS = 30.0
"""Seconds for a file operation, plus a second for each 10 MB of content."""
_TREE_SECONDS = 600.0
"""Seconds for a walk of the whole workspace, in which contents of many GB may be read."""


def run_request(
    limits: SandboxLimits,
    command: str,
    timeout: float | None,
    *,
    merge_stderr: bool,
    env: Mapping[str, str],
    live: bool,
    spills: bool,
) -> tuple[float, bytes]:
    """Return the time-out in seconds and the payload of a command.

    Args:
        spills: whether a file in the sandbox keeps the whole of a long output.

    Raises:
        ValueError: the time-out, the command or a variable is not valid.
    """
    seconds = _seconds(limits, timeout)
    if "\0" in command:
        raise ValueError("a command cannot hold a NUL character")
    variables = encoded_variables(env, any_bytes=True)
    text = _command(command, any_bytes=True)
    if len(text) >= limits.file_size:  # inside, a long command is a file
        raise ValueError(f"the command has {len(text):,} bytes: `file_size` allows less than that")
    request = RunRequest(text, limits.output_chars, merge_stderr, live, variables, spills=spills)
    return seconds, REQUEST.pack(Worker.RUN, seconds) + request.encode()


def encoded_variables(env: Mapping[str, str], *, any_bytes: bool) -> list[bytes]:
    """Return each variable as `name=value`.

    Args:
        any_bytes: see `encoded`.

    Raises:
        ValueError: a variable is not valid or too large, or there are too many.
    """
    if any(not name or "=" in name for name in env):
        raise ValueError("the name of a variable cannot be empty, and cannot hold '='")
    variables = []
    for name, value in env.items():
        if "\0" in name or "\0" in value:
            raise ValueError(f"the variable {name[:80]!a} holds a NUL character")
        try:
            variable = encoded(f"{name}={value}", any_bytes=any_bytes)
        except ValueError as error:
            raise ValueError(f"the variable {name[:80]!a} cannot be passed: {error}") from None
        if len(variable) > MAX_VARIABLE:
            raise ValueError(
                f"the variable {name[:80]} has {len(variable):,} bytes with its name: at most "
                f"{MAX_VARIABLE:,} fit; put the value into a file"
            )
        variables.append(variable)
    if len(variables) > MOST_VARIABLES:
        raise ValueError(
            f"{len(variables):,} variables: at most {MOST_VARIABLES:,} fit; put values into files"
        )
    if sum(map(len, variables)) > MAX_VARIABLE_BYTES:
        raise ValueError(f"the variables have more than {MAX_VARIABLE_BYTES:,} bytes; put values into files")
    return variables


def run_asked(command: str, env: Mapping[str, str], *, merge_stderr: bool) -> tuple[str, ...]:
    """Return the parts that identify a command, for its record."""
    more = [f"{name}={value}" for name, value in sorted(env.items())]
    return "run", command, *([] if merge_stderr else ["stderr apart"]), *more


def block_request(
    limits: SandboxLimits, code: str, session: str, timeout: float | None
) -> tuple[float, Callable[..., bytes]]:
    """Return the time-out in seconds and a function that makes the payload of a block.

    The function has the arguments `continues` and `ends` of `BlockRequest`.

    Raises ValueError like `run_request`.
    """
    seconds = _seconds(limits, timeout)
    name = session.encode("utf-8", "surrogatepass")
    if len(name) > MAX_SESSION:
        raise ValueError(f"the name of the session has {len(name)} bytes: at most {MAX_SESSION:,} fit")
    block = _command(code, any_bytes=False)

    def payload(*, continues: bool, ends: bool = False) -> bytes:
        request = BlockRequest(name, block, limits.output_chars, continues, ends=ends)
        return REQUEST.pack(Worker.PYTHON, seconds) + request.encode()

    return seconds, payload


def file_request(
    do: str, content: bytes | None, arguments: dict[str, Any], *, protected: list[str]
) -> tuple[float, bytes]:
    """Return the time-out in seconds and the payload of a file operation.

    Raises:
        ValueError, TypeError, FileFailed: see `check_arguments`. FileFailed also if the request is too large.
    """
    check_arguments(do, content, arguments)
    more: dict[str, Any] = {}
    if content is not None:
        more["size"] = len(content)
    if do == "delete":
        more["protected"] = protected
    seconds = _FILE_SECONDS + len(content or b"") / 10e6
    return seconds, _file_payload(do, {**arguments, **more}, seconds)


def tree_request(
    do: str, size: int, arguments: dict[str, Any], own_mounts: Sequence[str]
) -> tuple[float, bytes]:
    """Return the time-out in seconds and the payload of an operation on the whole workspace.

    Args:
        size: bytes of the input.
        own_mounts: paths inside of what the sandbox itself has mounted: no part of the workspace.

    Raises:
        FileFailed: the request is too large.
    """
    seconds = _TREE_SECONDS + size / 10e6
    return seconds, _file_payload(do, arguments | {"size": size, "own_mounts": own_mounts}, seconds)


def _file_payload(do: str, arguments: dict[str, Any], seconds: float) -> bytes:
    request = json.dumps({"do": do, "arguments": arguments}, ensure_ascii=False)
    payload = REQUEST.pack(Worker.FILE, seconds) + request.encode("utf-8", "surrogatepass")
    if len(payload) > MAX_PAYLOAD:
        raise FileFailed("too_large", f"the request is larger than {MAX_PAYLOAD >> 20} MB")
    return payload


def file_asked(do: str, content: bytes | None, arguments: dict[str, Any]) -> tuple[str | bytes, ...]:
    """Return the parts that identify a file operation, for its record.

    Raises:
        ValueError: the operation changes nothing, so it needs no key.
    """
    if do not in CHANGES:
        raise ValueError(f"a key is for what changes something, not for {do!r}")
    return "file", do, json.dumps(arguments, sort_keys=True), content or b""


def _seconds(limits: SandboxLimits, timeout: float | None) -> float:
    seconds = limits.timeout if timeout is None else timeout
    if not 0 < seconds <= MAX_TIMEOUT:
        raise ValueError(f"timeout is {seconds}: it must be over 0 and at most {MAX_TIMEOUT:g} seconds")
    return seconds


def _command(text: str, *, any_bytes: bool) -> bytes:
    """Encode a command or a block. `any_bytes`: see `encoded`."""
    command = encoded(text, any_bytes=any_bytes)
    if len(command) > MAX_COMMAND:
        raise ValueError(f"the command has {len(command)} bytes: at most {MAX_COMMAND} are run")
    return command
