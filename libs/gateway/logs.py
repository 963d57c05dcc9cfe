"""Log records without secrets, whoever makes them and wherever they go."""

from __future__ import annotations

import logging
import traceback
from typing import Any, AnyStr, Protocol

__all__ = ["RecordFactory", "guard_logs", "redact_record"]

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""What every record has: all else was given as `extra`."""


class _Redact(Protocol):
    def __call__(self, data: AnyStr) -> AnyStr: ...

    def values(self, value: Any) -> Any: ...


def guard_logs(redact: _Redact) -> None:
    """Take secrets out of every log record of this process that is made from now on. Call it again to renew.

    Records are cleaned where they are made, so that no handler, however late it is added, gets another. What
    a caller gives as `extra` is put into a record afterwards: the handlers that there are now take it out.
    """
    made = logging.getLogRecordFactory()
    if isinstance(made, RecordFactory):
        made.redact = redact
    else:
        made = RecordFactory(made, redact)
        logging.setLogRecordFactory(made)
    loggers = [logging.getLogger(), *map(logging.getLogger, list(logging.root.manager.loggerDict))]
    for handler in {handler for logger in loggers for handler in logger.handlers}:
        handler.addFilter(made.without_extra)
    if logging.lastResort:
        logging.lastResort.addFilter(made.without_extra)


class RecordFactory:
    """Makes log records, without secrets."""

    def __init__(self, make: Any, redact: _Redact) -> None:
        self.redact = redact
        self.make = make
        """What makes records of any kind: the factory that was there before."""

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = self.make(*args, **kwargs)
        redact_record(record, self.redact)
        return record

    def without_extra(self, record: logging.LogRecord) -> bool:
        """A filter of handlers: keeps every record, without secrets in what was given as `extra`."""
        for name in vars(record).keys() - _OWN:
            record.__dict__[name] = self.redact.values(record.__dict__[name])
        return True


def redact_record(record: logging.LogRecord, redact: _Redact) -> None:
    """Take secrets out of a record's message, arguments, traceback and stack.

    A record that holds none stays as it is. In one that holds some in its traceback, that becomes a part of
    the message: no formatter could make another of it.
    """
    if isinstance(record.msg, str) or record.args:
        _redact_message(record, redact)
    else:  # a structured one: a mapping, or any object
        record.msg = (
            redact.values(record.msg) if isinstance(record.msg, dict | list) else _plain(record, redact)
        )
    if record.exc_info and record.exc_info[1] is not None:
        told = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        shown = redact(told)
        if shown != told:
            if isinstance(record.msg, dict):
                record.msg = {"exception": shown, **record.msg}
            else:
                record.msg, record.args = f"{record.getMessage()}\n{shown}", ()
            record.exc_info = record.exc_text = None
    if record.stack_info:
        record.stack_info = redact(record.stack_info)


def _redact_message(record: logging.LogRecord, redact: _Redact) -> None:
    try:
        told = record.getMessage()
    except Exception:  # noqa: BLE001 - wrong arguments: logging itself would print them as they are
        shown = redact(f"{record.msg} {record.args}")
        record.msg, record.args = shown, ()
        return
    shown = redact(told)
    if shown != told:
        record.msg, record.args = shown, ()


def _plain(record: logging.LogRecord, redact: _Redact) -> Any:
    told = str(record.msg)
    shown = redact(told)
    return record.msg if shown == told else shown
