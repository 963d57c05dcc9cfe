"""The request log: its lines, its mode, rotation, and slow disks."""

from __future__ import annotations

import json
import logging
import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from libs.gateway.request_log import LogEntry, RequestLog
from libs.redaction import SecretFilter
from tests.support.waiting import eventually


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_request_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "new" / "egress.jsonl"
    log = RequestLog(path)
    log.record(LogEntry("box-1", "t-1", "GET", "http", "example.com", 80, "/a", status=200, seconds=0.12345))
    log.record(LogEntry("box-1", host="evil.org", decision="refused", reason="not in EGRESS_ALLOW"))
    log.close()
    first, second = entries(path)
    assert list(first) == [
        *("time", "sandbox", "thread", "method", "scheme", "host", "port", "path", "decision", "reason"),
        *("status", "bytes_in", "bytes_out", "seconds"),
    ]
    assert [first[key] for key in ("sandbox", "thread", "path", "seconds")] == ["box-1", "t-1", "/a", 0.1235]
    assert first["time"].endswith("+00:00")
    assert (second["decision"], second["reason"]) == ("refused", "not in EGRESS_ALLOW")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_existing_file_becomes_private_and_an_unused_log_makes_none(tmp_path: Path) -> None:
    path = tmp_path / "egress.jsonl"
    path.write_text('{"old": 1}\n')
    path.chmod(0o644)
    log, unused = RequestLog(path), RequestLog(tmp_path / "unused.jsonl")
    log.record(LogEntry(host="example.com"))
    log.close()
    unused.close()
    unused.record(LogEntry(host="one.example"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(entries(path)) == 2
    assert list(tmp_path.iterdir()) == [path]


def test_secrets_are_redacted(tmp_path: Path) -> None:
    secret = 'S3cr3t-"Zx9"\\Qw'
    path = tmp_path / "egress.jsonl"
    log = RequestLog(path, redact=SecretFilter({"TOKEN": secret}))
    log.record(LogEntry(path=f"/bot{secret}/send\n", host="example.com", reason="x" * 1990 + secret))
    log.close()
    (entry,) = entries(path)
    assert entry["path"] == "/bot[REDACTED]/send\n"
    assert len(entry["reason"]) == 2000
    assert "S3cr" not in path.read_text()


def test_full_log_is_rotated(tmp_path: Path) -> None:
    path = tmp_path / "egress.jsonl"
    log = RequestLog(path, most_bytes=2_000)
    for number in range(60):
        log.record(LogEntry(host=f"host-{number}.example"))
    log.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["egress.jsonl", "egress.jsonl.1"]
    both = entries(tmp_path / "egress.jsonl.1") + entries(path)
    assert [entry["host"] for entry in both] == [
        f"host-{number}.example" for number in range(60 - len(both), 60)
    ]
    assert all(file.stat().st_size < 2_400 for file in tmp_path.iterdir())
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in tmp_path.iterdir())


def test_symbolic_link_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    target = tmp_path / "precious"
    target.write_text("keep")
    (tmp_path / "egress.jsonl").symlink_to(target)
    log = RequestLog(tmp_path / "egress.jsonl")
    with caplog.at_level(logging.WARNING):
        log.record(LogEntry(host="one.example"))
        log.record(LogEntry(host="two.example"))
        log.close()
    assert target.read_text() == "keep"
    assert caplog.text.count("requests are not logged") == 1


def test_slow_disk_delays_no_request(tmp_path: Path) -> None:
    path = tmp_path / "egress.jsonl"
    os.mkfifo(path)  # opening the pipe blocks like a dead disk
    log = RequestLog(path)
    began = time.monotonic()
    for _ in range(10_500):
        log.record(LogEntry(host="one.example"))
    assert time.monotonic() - began < 30
    lines: list[str] = []

    def read() -> None:
        with path.open() as pipe:
            lines.extend(pipe)

    reader = threading.Thread(target=read)
    reader.start()
    eventually(lambda: lines)
    log.close()
    reader.join(10)
    written = [json.loads(line) for line in lines]
    assert len(written) + sum(entry.get("dropped_before", 0) for entry in written) == 10_500
    assert sum(entry.get("dropped_before", 0) for entry in written) > 0
