"""Removes secrets from all log records of this process."""

from __future__ import annotations

import logging
import traceback
from typing import Any

from libs.redaction.secret_filter import SecretFilter

__all__ = ["RecordFactory", "guard_logs", "redact_record"]

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""Attributes of every record. Other attributes come from `extra`."""


def guard_logs(redact: SecretFilter) -> None:
    """Remove secrets from every future log record of this process. Can be called again.

    Records are cleaned by the record factory, so later handlers are covered, too. `extra` values are added
    after that, so present handlers get a filter for them.
    """
    factory = logging.getLogRecordFactory()
    if isinstance(factory, RecordFactory):
        factory.redact = redact
    else:
        factory = RecordFactory(factory, redact)
        logging.setLogRecordFactory(factory)
    loggers = [logging.getLogger(), *map(logging.getLogger, list(logging.root.manager.loggerDict))]
    for handler in {handler for logger in loggers for handler in logger.handlers}:
        handler.addFilter(factory.without_extra)
    if logging.lastResort:
        logging.lastResort.addFilter(factory.without_extra)


class RecordFactory:
    """Makes log records without secrets."""

    def __init__(self, make: Any, redact: SecretFilter) -> None:
        self.redact = redact
        self.make = make
        """The previous factory."""

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = self.make(*args, **kwargs)
        redact_record(record, self.redact)
        return record

    def without_extra(self, record: logging.LogRecord) -> bool:
        """Remove secrets from `extra` values. A filter for handlers; keeps every record."""
        for name in vars(record).keys() - _OWN:
            record.__dict__[name] = self.redact.values(record.__dict__[name])
        return True


def redact_record(record: logging.LogRecord, redact: SecretFilter) -> None:
    """Remove secrets from the message, arguments, traceback and stack of a record.

    A record without secrets is unchanged. A traceback with secrets is moved into the message, so that no
    formatter renders the original.
    """
    if isinstance(record.msg, dict | list) and not record.args:
        record.msg = redact.values(record.msg)
    else:
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - wrong arguments, which logging itself would print
            text, record.args = f"{record.msg} {record.args}", ()
            record.msg = redact(text)
        if (redacted := redact(text)) != text:
            record.msg, record.args = redacted, ()
    if record.exc_info and record.exc_info[1] is not None:
        text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        if (redacted := redact(text)) != text:
            if isinstance(record.msg, dict):
                record.msg = {"exception": redacted, **record.msg}
            else:
                record.msg, record.args = f"{record.getMessage()}\n{redacted}", ()
            record.exc_info = record.exc_text = None
    if record.stack_info:
        record.stack_info = redact(record.stack_info)
