"""The file that says what left, and what was refused."""

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

from libs.gateway.redaction import SecretFilter
from libs.gateway.request_log import LogEntry, RequestLog


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_one_line_each(tmp_path: Path) -> None:
    path = tmp_path / "new" / "egress.jsonl"
    log = RequestLog(path)
    log.record(
        LogEntry(
            "box-1", "t-1", "GET", "http", "example.com", 80, "/a", status=200, bytes_in=5, seconds=0.12345
        )
    )
    log.record(
        LogEntry("box-1", method="CONNECT", host="evil.org", decision="refused", reason="not in EGRESS_ALLOW")
    )
    log.close()
    first, second = entries(path)
    assert list(first) == [
        *("time", "sandbox", "thread", "method", "scheme", "host", "port", "path", "decision", "reason"),
        *("status", "bytes_in", "bytes_out", "seconds"),
    ]
    assert (first["sandbox"], first["thread"], first["path"], first["seconds"]) == (
        "box-1",
        "t-1",
        "/a",
        0.1235,
    )
    assert first["time"].endswith("+00:00")
    assert (second["decision"], second["reason"]) == ("refused", "not in EGRESS_ALLOW")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "egress.jsonl"
    path.write_text('{"old": 1}\n')
    path.chmod(0o644)
    log = RequestLog(path)
    log.record(LogEntry(host="example.com"))
    log.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(entries(path)) == 2


def test_no_file_without_an_entry(tmp_path: Path) -> None:
    RequestLog(tmp_path / "egress.jsonl").close()
    assert list(tmp_path.iterdir()) == []


def test_secrets_are_taken_out_and_lines_stay_lines(tmp_path: Path) -> None:
    secret = 'S3cr3t-"Zx9"\\Qw'
    path = tmp_path / "egress.jsonl"
    log = RequestLog(path, redact=SecretFilter({"TOKEN": secret}))
    log.record(LogEntry(path=f"/bot{secret}/send\n", host="example.com", reason="x" * 1990 + secret))
    log.close()
    (entry,) = entries(path)
    assert entry["path"] == "/bot[REDACTED]/send\n"
    assert len(entry["reason"]) == 2000
    assert "S3cr" not in path.read_text()


def test_it_is_begun_anew_where_it_is_full(tmp_path: Path) -> None:
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


def test_a_file_that_was_moved_away_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "egress.jsonl"
    log = RequestLog(path)
    log.record(LogEntry(host="one.example"))
    deadline = time.monotonic() + 5
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    path.rename(tmp_path / "kept")
    log.record(LogEntry(host="two.example"))
    log.close()
    assert [entry["host"] for entry in entries(tmp_path / "kept") + entries(path)] == [
        "one.example",
        "two.example",
    ]


def test_a_link_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    target = tmp_path / "precious"
    target.write_text("keep")
    (tmp_path / "egress.jsonl").symlink_to(target)
    log = RequestLog(tmp_path / "egress.jsonl")
    with caplog.at_level(logging.WARNING):
        log.record(LogEntry(host="one.example"))
        log.record(LogEntry(host="two.example"))
        log.close()
    assert target.read_text() == "keep"
    assert [record.message for record in caplog.records if "requests are not logged" in record.message][
        1:
    ] == []


def test_nobody_waits_for_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "egress.jsonl"
    os.mkfifo(path)  # opening it waits for a reader, as a dead disk might
    log = RequestLog(path)
    began = time.monotonic()
    for _ in range(10_500):
        log.record(LogEntry(host="one.example"))
    assert time.monotonic() - began < 2
    lines: list[str] = []

    def read() -> None:
        with path.open() as pipe:
            lines.extend(pipe)

    reader = threading.Thread(target=read)
    reader.start()
    while not lines and reader.is_alive() and time.monotonic() - began < 1:
        time.sleep(0.01)
    log.close()
    reader.join(10)
    written = [json.loads(line) for line in lines]
    assert len(written) + sum(entry.get("dropped_before", 0) for entry in written) == 10_500
    assert sum(entry.get("dropped_before", 0) for entry in written) > 0


def test_after_it_is_closed_nothing_is_written(tmp_path: Path) -> None:
    log = RequestLog(tmp_path / "egress.jsonl")
    log.close()
    log.record(LogEntry(host="one.example"))
    assert list(tmp_path.iterdir()) == []
