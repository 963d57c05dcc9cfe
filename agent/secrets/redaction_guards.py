"""Redacts secrets in logs, crash tracebacks, LangSmith traces, input of graphs, and errors of providers.

The sandbox's channel redacts the output of commands.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any

from libs.redaction import MARK, Redact, SecretFilter, guard_logs

__all__ = ["KNOWN", "clean_input", "guard_sinks", "guard_traces", "provider_errors"]

logger = logging.getLogger(__name__)


def guard_sinks(redact: Redact) -> None:
    """Redact this process's log and its crash tracebacks."""
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
    """Redact traces to LangSmith, if tracing is on: inputs, outputs, errors, metadata.

    Texts of models and errors of packages are redacted only here, because traces leave the machine.
    """
    from langsmith.run_trees import get_cached_client
    from langsmith.utils import tracing_is_enabled

    if tracing_is_enabled():
        get_cached_client(anonymizer=redact.values)


def clean_input(known: Redact | None) -> Callable[[Any], Any] | None:
    """Return a function that redacts input of a graph and logs a warning; None without known secrets."""
    if known is None:
        return None

    def clean(given: Any) -> Any:
        shown = known.values(given)
        if shown is not given:
            logger.warning("what was sent holds a secret: %s stands for it in the thread", MARK.decode())
        return shown

    return clean


def provider_errors(known: Redact | None) -> Callable[[], AbstractContextManager[None]]:
    """Return a context manager factory that redacts errors of model providers."""
    from libs.models import errors_without_secrets

    return nullcontext if known is None else partial(errors_without_secrets, known)


class _LazyFilter(SecretFilter):
    """The filter of the secrets in the settings; reads the settings at its first use."""

    def __init__(self) -> None:
        super().__init__({})
        self._lock = threading.RLock()
        self._known: SecretFilter | None = None

    @property
    def forms(self) -> Sequence[bytes]:
        with self._lock:
            if self._known is None:
                self._known = SecretFilter({})  # for log records of the look-up itself, which hold no secret
                try:
                    self._known = _look_up()
                except BaseException:
                    self._known = None
                    raise
            return self._known.forms


KNOWN = _LazyFilter()
"""Redacts the secrets of the settings, which are read at the first use."""


def _look_up() -> SecretFilter:
    from agent.secrets.secret_values import secret_filter
    from agent.settings import SettingsError, load_settings, unchecked_settings

    try:
        settings = load_settings()
    except SettingsError:
        settings = unchecked_settings()
    try:
        return secret_filter(settings) or SecretFilter({})
    except (OSError, UnicodeDecodeError):  # `.env` cannot be read
        return secret_filter(unchecked_settings(None)) or SecretFilter({})
