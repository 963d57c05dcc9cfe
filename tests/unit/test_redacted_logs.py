"""What this process logs, and prints when it crashes, holds no known secret (G6)."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.gateway.logs import RecordFactory, guard_logs
from libs.gateway.redaction import SecretFilter

ROOT = Path(__file__).parents[2]
KEY = "sk-canary-Ab12Cd34"
KNOWN = SecretFilter({"KEY": KEY})
MARK = "[REDACTED]"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What a handler that is added after the guard writes."""
    before, handlers = logging.getLogRecordFactory(), list(logging.getLogger().handlers)
    early = logging.StreamHandler(io.StringIO())
    early.setFormatter(logging.Formatter("%(message)s %(key)s", defaults={"key": "-"}))
    logger = logging.getLogger("canaries")
    logger.addHandler(early)
    logger.setLevel(logging.DEBUG)
    logging.setLogRecordFactory(
        logging.LogRecord
    )  # a graph that was imported before has guarded this process
    guard_logs(KNOWN)
    late = logging.StreamHandler(io.StringIO())
    late.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    logger.addHandler(late)
    both = io.StringIO()
    early.stream = late.stream = both  # type: ignore[assignment]
    yield both
    logging.setLogRecordFactory(before)
    logger.handlers.clear()
    for handler in [*handlers, logging.lastResort]:
        for each in list(handler.filters) if handler else ():
            if isinstance(getattr(each, "__self__", None), RecordFactory):
                handler.removeFilter(each)  # type: ignore[union-attr]


logger = logging.getLogger("canaries")


class TestRecords:
    def test_message_and_arguments(self, log: io.StringIO) -> None:
        logger.info("the key is %s", KEY)
        logger.info(f"the key is {KEY}")
        logger.info("%(a)s and %(b)d", {"a": KEY.encode().hex(), "b": 5})
        logger.debug({"event": "said", "key": KEY})
        assert KEY not in log.getvalue()
        assert KEY.encode().hex() not in log.getvalue()
        assert log.getvalue().count(MARK) == 8

    def test_what_holds_none_is_as_it_was(self, log: io.StringIO) -> None:
        logger.info("%s of %d", "one", 2)
        assert log.getvalue() == "one of 2 -\nINFO canaries one of 2\n"

    def test_arguments_that_do_not_fit(self, log: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
        logger.info("%d keys", KEY)
        logger.info("%s %s", KEY)  # noqa: PLE1206
        assert KEY not in log.getvalue() + capsys.readouterr().err
        assert MARK in log.getvalue()

    def test_tracebacks_and_what_they_came_from(self, log: io.StringIO) -> None:
        try:
            try:
                raise KeyError(KEY)
            except KeyError as inner:
                raise ValueError(f"bad {KEY}") from inner
        except ValueError:
            logger.exception("failed")
            logger.info("again", exc_info=True, stack_info=True)
        assert KEY not in log.getvalue()
        assert f"ValueError: bad {MARK}" in log.getvalue()
        assert f"KeyError: '{MARK}'" in log.getvalue()

    def test_a_traceback_without_one_stays_for_the_formatter(self, log: io.StringIO) -> None:
        seen: list[logging.LogRecord] = []
        handler = logging.Handler()
        handler.emit = seen.append  # type: ignore[method-assign]
        logger.addHandler(handler)
        try:
            raise ValueError("nothing")
        except ValueError:
            logger.exception("failed")
        assert seen[0].exc_info is not None

    def test_extra(self, log: io.StringIO) -> None:
        logger.info("said", extra={"key": f"<{KEY}>"})
        assert f"said <{MARK}>" in log.getvalue()
        assert KEY not in log.getvalue()

    def test_guarded_again_handlers_that_have_come_since_are_too(self, log: io.StringIO) -> None:
        handler = logging.StreamHandler(log)
        handler.setFormatter(logging.Formatter("%(key)s", defaults={"key": "-"}))
        logger.addHandler(handler)
        guard_logs(KNOWN)
        logger.info("said", extra={"key": KEY})
        assert KEY not in log.getvalue()

    def test_the_last_resort(self) -> None:
        done = run(
            """
            import logging
            from libs.gateway.logs import guard_logs
            from libs.gateway.redaction import SecretFilter
            guard_logs(SecretFilter({"KEY": KEY}))
            logging.getLogger("x").warning("said %s", KEY)
            """
        )
        assert done.stderr == f"said {MARK}\n"


class TestStructured:
    def test_the_log_of_langgraphs_server(self) -> None:
        """Structured events, their exceptions, and what other loggers give as extra."""
        done = run(
            """
            import logging, logging.config, structlog
            from langgraph_api.logging import Formatter
            handler = logging.StreamHandler()
            handler.setFormatter(Formatter(None, None, "%"))
            logging.getLogger().addHandler(handler)
            logging.getLogger().setLevel("INFO")
            from libs.gateway.logs import guard_logs
            from libs.gateway.redaction import SecretFilter
            guard_logs(SecretFilter({"KEY": KEY}))
            log = structlog.stdlib.get_logger("asgi")
            log.info(f"GET /{KEY}", path_params={"key": KEY}, query=[KEY])
            try:
                raise ValueError(f"bad {KEY}")
            except ValueError as error:
                log.exception("failed", exc_info=error)
                log.warning("failed", exc_info=True)
                logging.getLogger("other").exception("failed too", extra={"held": KEY})
            """
        )
        assert done.stderr.count(MARK) >= 7
        assert "ValueError" in done.stderr
        assert "failed too" in done.stderr


class TestCrashes:
    def test_of_the_program_and_its_threads(self) -> None:
        done = run(
            """
            import threading
            from agent.sinks import guard_sinks
            from libs.gateway.redaction import SecretFilter
            guard_sinks(SecretFilter({"KEY": KEY}))
            class Bad:
                def __del__(self): raise ValueError(f"in del {KEY}")
            Bad()
            def fail(): raise ValueError(f"in a thread {KEY}")
            thread = threading.Thread(target=fail); thread.start(); thread.join()
            try:
                raise KeyError(KEY)
            except KeyError as error:
                raise RuntimeError(f"crash {KEY}") from error
            """,
            status=1,
        )
        for words in ("in del", "in a thread", "crash"):
            assert f"{words} {MARK}" in done.stderr
        assert done.stderr.endswith(f"RuntimeError: crash {MARK}\n")

    def test_with_settings_that_are_read_only_then(self, tmp_path: Path) -> None:
        """Also where they cannot be used: what `.env` holds is known all the same."""
        for more in ("", "APPROVALS=never\n"):
            (tmp_path / ".env").write_text(f"OPENAI_API_KEY={KEY}\n{more}")
            done = run(
                """
                from agent.sinks import KNOWN, guard_sinks
                guard_sinks(KNOWN)
                raise RuntimeError(f"crash {KEY}")
                """,
                status=1,
                folder=tmp_path,
            )
            assert done.stderr.endswith(f"RuntimeError: crash {MARK}\n")


def run(script: str, *, status: int = 0, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A program of its own; nowhere in what it prints is the key."""
    code = f"KEY = 'sk-canary-' + 'Ab12Cd34'\n{textwrap.dedent(script)}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "LOG_COLOR": "false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert KEY not in done.stdout + done.stderr
    return done
