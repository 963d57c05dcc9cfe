"""Log records and crash reports of this process contain no known secret."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.redaction import SecretFilter, guard_logs
from libs.redaction.log_guard import RecordFactory

ROOT = Path(__file__).parents[3]
KEY = "sk-canary-Ab12Cd34"
KNOWN = SecretFilter({"KEY": KEY})
MARK = "[REDACTED]"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Collect the output of two handlers: one added before the guard, one after."""
    before, handlers = logging.getLogRecordFactory(), list(logging.getLogger().handlers)
    early = logging.StreamHandler(io.StringIO())
    early.setFormatter(logging.Formatter("%(message)s %(key)s", defaults={"key": "-"}))
    logger = logging.getLogger("canaries")
    logger.addHandler(early)
    logger.setLevel(logging.DEBUG)
    logging.setLogRecordFactory(logging.LogRecord)  # an imported graph may have guarded this process
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

    def test_wrong_arguments(self, log: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
        logger.info("%d keys", KEY)
        logger.info("%s %s", KEY)  # noqa: PLE1206
        assert KEY not in log.getvalue() + capsys.readouterr().err
        assert MARK in log.getvalue()

    def test_tracebacks_and_their_causes(self, log: io.StringIO) -> None:
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

    def test_extra_of_handlers_before_and_after(self, log: io.StringIO) -> None:
        handler = logging.StreamHandler(log)
        handler.setFormatter(logging.Formatter("%(key)s", defaults={"key": "-"}))
        logger.addHandler(handler)
        guard_logs(KNOWN)
        logger.info("said", extra={"key": f"<{KEY}>"})
        assert KEY not in log.getvalue()
        assert f"said <{MARK}>" in log.getvalue()


def test_log_of_langgraphs_server() -> None:
    """Structured events, their exceptions, and `extra` values of other loggers."""
    done = run(
        """
        import logging, logging.config, structlog
        from langgraph_api.logging import Formatter
        handler = logging.StreamHandler()
        handler.setFormatter(Formatter(None, None, "%"))
        logging.getLogger().addHandler(handler)
        logging.getLogger().setLevel("INFO")
        from libs.redaction import guard_logs
        from libs.redaction import SecretFilter
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
    def test_crash_of_the_program_and_its_threads(self) -> None:
        done = run(
            """
            import threading
            from agent.secrets.redaction_guards import guard_sinks
            from libs.redaction import SecretFilter
            guard_sinks(SecretFilter({"KEY": KEY}))
            import logging
            logging.getLogger("x").warning("said %s", KEY)  # by the handler of last resort
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
        for words in ("said", "in del", "in a thread", "crash"):
            assert f"{words} {MARK}" in done.stderr
        assert done.stderr.endswith(f"RuntimeError: crash {MARK}\n")

    @pytest.mark.parametrize("more", ["", "APPROVALS=never\n"], ids=["", "wrong settings"])
    def test_crash_of_a_command(self, tmp_path: Path, more: str) -> None:
        """Secrets of `.env` are known even if its settings are invalid."""
        (tmp_path / ".env").write_text(f"OPENAI_API_KEY={KEY}\n{more}")
        done = run(
            """
            from agent.cli import app
            @app.command()
            def fail(): raise RuntimeError(f"crash {KEY}")
            app(["fail"])
            """,
            status=1,
            folder=tmp_path,
        )
        assert done.stderr.endswith(f"RuntimeError: crash {MARK}\n")


def run(script: str, *, status: int = 0, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a script in a new process and check that its output does not contain the key."""
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
