"""Redacts secrets from logs, crash tracebacks, LangSmith traces, what people send, and providers' errors.

The sandbox's channel redacts the output of commands.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, AnyStr, Protocol

from libs.gateway.logs import guard_logs

if TYPE_CHECKING:
    from agent.config import Settings

__all__ = [
    "KNOWN",
    "Redact",
    "clean_input",
    "guard_process",
    "guard_sinks",
    "guard_traces",
    "provider_errors",
]

logger = logging.getLogger(__name__)


class Redact(Protocol):
    """Takes secrets out of texts, and out of whatever holds texts."""

    def __call__(self, data: AnyStr) -> AnyStr: ...

    def values(self, value: Any) -> Any: ...


def guard_process(settings: Settings) -> None:
    """Guard all of them in a program that serves graphs; does nothing where no secret is known."""
    from agent.known_secrets import secret_filter

    if known := secret_filter(settings):
        guard_sinks(known)
        guard_traces(known)


def guard_sinks(redact: Redact) -> None:
    """Take secrets out of this process's log and of what it prints when it crashes."""
    guard_logs(redact)

    def crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))
        sys.stderr.flush()

    def thread_crash(args: threading.ExceptHookArgs) -> None:
        if args.exc_type is not SystemExit and args.exc_value is not None:
            name = args.thread.name if args.thread else "?"
            sys.stderr.write(f"Exception in thread {redact(name)}:\n")
            crash(args.exc_type, args.exc_value, args.exc_traceback)

    def unraisable(args: Any) -> None:
        sys.stderr.write(redact(f"{args.err_msg or 'Exception ignored in'}: {args.object!r}\n"))
        if args.exc_value is not None:
            crash(args.exc_type, args.exc_value, args.exc_traceback)

    sys.excepthook = crash
    threading.excepthook = thread_crash
    sys.unraisablehook = unraisable


def guard_traces(redact: Redact) -> None:
    """Take secrets out of what is traced to LangSmith, where that is on: inputs, outputs, errors, metadata.

    What comes from a sandbox or a person is clean by then. This is for the rest, such as what a model writes
    or an error of a package says: traces leave the machine.
    """
    from langsmith.run_trees import get_cached_client
    from langsmith.utils import tracing_is_enabled

    if tracing_is_enabled():
        get_cached_client(anonymizer=redact.values)


def clean_input(known: Redact | None) -> Callable[[Any], Any] | None:
    """What takes secrets out of what people send to a graph, and logs that it did. None: nothing is known."""
    if known is None:
        return None

    def clean(given: Any) -> Any:
        shown = known.values(given)
        if shown is not given:
            from libs.gateway.redaction import MARK

            logger.warning("what was sent holds a secret: %s stands for it in the thread", MARK.decode())
        return shown

    return clean


def provider_errors(known: Redact | None) -> Callable[[], AbstractContextManager[None]]:
    """Make the context that takes secrets out of the errors of model providers. None: nothing is known."""
    from libs.models.model_errors import errors_without_secrets

    return nullcontext if known is None else partial(errors_without_secrets, known)


class _Lazily:
    """The secrets of the settings, looked up when something is to be shown for the first time."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._redact: Redact | None = None
        self._looking = False

    def __call__(self, data: AnyStr) -> AnyStr:
        known = self._known()
        return known(data) if known else data

    def values(self, value: Any) -> Any:
        known = self._known()
        return known.values(value) if known else value

    def _known(self) -> Redact | None:
        with self._lock:
            if self._redact is None and not self._looking:
                self._looking = True  # looking may log: that is shown as it is, and holds no value
                try:
                    self._redact = _look_up()
                finally:
                    self._looking = False
            return self._redact


KNOWN: Redact = _Lazily()
"""Takes out the secrets of the settings; these are not read until something is to be shown."""


def _look_up() -> Redact:
    from agent.config import SettingsError, load_settings, unchecked_settings
    from agent.known_secrets import secret_filter
    from libs.gateway.redaction import SecretFilter

    try:
        settings = load_settings()
    except SettingsError:
        settings = unchecked_settings()
    try:
        return secret_filter(settings) or SecretFilter({})
    except (OSError, UnicodeDecodeError):  # no file to be read
        return secret_filter(unchecked_settings(None)) or SecretFilter({})
