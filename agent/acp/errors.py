"""What keeps a session from going on, as an error of the protocol: its message says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from acp.exceptions import RequestError

from agent.agents import AgentRefused
from agent.config import SettingsError
from agent.explained import explained
from agent.sinks import KNOWN
from libs.models.scripted import ScriptError
from libs.persistence.errors import CheckpointerUnavailable
from libs.persistence.thread_lock import ThreadInUse
from libs.sandbox.errors import SandboxError

__all__ = ["INTERNAL_ERROR", "INVALID_PARAMS", "INVALID_REQUEST", "NOT_FOUND", "as_request_errors"]

INVALID_REQUEST, INVALID_PARAMS, INTERNAL_ERROR, NOT_FOUND = -32600, -32602, -32603, -32002


@contextmanager
def as_request_errors() -> Iterator[None]:
    """Turn what is known to go wrong into a `RequestError`, without any secret in it."""
    try:
        yield
    except (SandboxError, CheckpointerUnavailable) as error:
        raise RequestError(INTERNAL_ERROR, KNOWN(f"{error} {error.hint}")) from error
    except (SettingsError, AgentRefused, ScriptError, ThreadInUse) as error:
        raise RequestError(INTERNAL_ERROR, KNOWN(str(error))) from error
    except Exception as error:
        if (text := explained(error)) is None:
            raise
        raise RequestError(INTERNAL_ERROR, KNOWN(text)) from error
