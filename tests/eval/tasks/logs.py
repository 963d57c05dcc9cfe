"""Questions over logs: status codes, failed logins, a window of time, rotated and packed files."""

from __future__ import annotations

import gzip
from collections.abc import Mapping

from tests.eval.checks import all_of, figure, first_named
from tests.eval.data import Draw
from tests.eval.task import Task

_PATHS = ["/api/search", "/api/cart", "/api/pay", "/static/app.js"]


def _access() -> Mapping[str, bytes]:
    draw = Draw(61)
    lines = []
    for _ in range(900):
        path = draw.pick([*_PATHS, "/static/app.js", "/api/search"])
        failing = {"/api/pay": ["503", "500", "200"], "/api/search": ["404", "404", "502", "200", "200"]}
        status = draw.pick(failing.get(path, ["200", "200", "200", "304", "404", "500"]))
        when = f"{draw.below(28) + 1:02}/May/2024:{draw.below(24):02}:{draw.below(60):02}:{draw.below(60):02} +0000"
        lines.append(
            f'10.0.{draw.below(4)}.{draw.below(200)} - - [{when}] "GET {path} HTTP/1.1" {status} {draw.below(9000) + 500}\n'
        )
    return {"access.log": "".join(lines).encode()}


def _logins() -> Mapping[str, bytes]:
    draw = Draw(62)
    lines = []
    for second in range(1500):
        address = f"172.16.{draw.below(4)}.{min(draw.below(90), draw.below(90))}"
        what = draw.pick(
            ["Failed password for admin", "Failed password for guest", "Accepted password for alice"]
        )
        lines.append(
            f"2024-05-03T{second // 60 % 24:02}:{second % 60:02}:11 sshd[{700 + second}]: {what} from {address} port {40_000 + second}\n"
        )
    for second in range(9):
        lines.insert(
            150 * second,
            lines[2].split(": ")[0] + f": Failed password for root from 172.16.3.13 port {60_000 + second}\n",
        )
    return {"auth.log": "".join(lines).encode()}


def _transfer() -> Mapping[str, bytes]:
    draw = Draw(63)
    lines = []
    for _ in range(1200):
        when = f"{draw.day('2024-05-01', 5)} {draw.below(5) + 8:02}:{draw.below(60):02}:{draw.pick([0, 0, draw.below(60)]):02}"
        lines.append(
            (when, f"host{draw.below(9)} {draw.pick(['sent', 'received'])} {draw.below(90_000) + 100} bytes")
        )
    lines += [
        ("2024-05-03 11:00:00", "host1 sent 55555 bytes"),
        ("2024-05-03 10:00:00", "host2 sent 777 bytes"),
    ]
    return {"transfer.log": "".join(f"{when} {what}\n" for when, what in sorted(lines)).encode()}


def _rotated() -> Mapping[str, bytes]:
    draw = Draw(64)

    def log(lines: int) -> bytes:
        text = ""
        for _ in range(lines):
            level = draw.pick(["INFO", "INFO", "WARN", "ERROR"])
            part = draw.pick(["payment", "search", "mail"])
            text += f"2024-06-{draw.below(30) + 1:02} {level} {part}: {draw.pick(['took too long', 'no ERROR found', 'retry'])}\n"
        return text.encode()

    return {
        "app/app.log": log(260),
        "app/app.log.1": log(310),
        "app/app.log.2.gz": gzip.compress(log(420), mtime=0),
        "app/other.txt": log(30),
    }


TASKS = [
    Task(
        name="server-errors",
        text="Which path in /data/access.log has the most answers with a status of 500 or above, and how many are they?",
        files=_access,
        check=all_of(first_named("/api/pay", "/api/search", "/api/cart", "/static/app.js"), figure(99)),
        reference="""
import re
count = {}
for line in (DATA / "access.log").read_text().splitlines():
    path, status = re.search(r'"GET (\\S+) [^"]*" (\\d+)', line).groups()
    if int(status) >= 500:
        count[path] = count.get(path, 0) + 1
best = max(count, key=count.get)
print(best, "with", count[best])
""",
        wrong={
            "400 and above": (">= 500", ">= 400"),
            "exactly 500": (">= 500", "== 500"),
            "all requests": ("int(status) >= 500", "True"),
        },
    ),
    Task(
        name="failed-logins",
        text="How many different addresses in /data/auth.log have at least eight failed logins, and which address has the most failed ones?",
        files=_logins,
        check=all_of(figure(10), first_named(r"172\.16\.3\.13", r"172\.16\.\d+\.\d+")),
        reference="""
import re
count = {}
for line in (DATA / "auth.log").read_text().splitlines():
    if "Failed" in line:
        address = re.search(r"from (\\S+)", line)[1]
        count[address] = count.get(address, 0) + 1
print(sum(number >= 8 for number in count.values()), "addresses; the most has", max(count, key=count.get))
""",
        wrong={
            "every login": ('if "Failed" in line', "if True"),
            "more than eight": (">= 8", "> 8"),
            "lines counted": ("sum(number >= 8 for", "sum(number for"),
        },
    ),
    Task(
        name="time-window",
        text="How many bytes were sent (not received) on 3 May 2024 from 10:00:00 up to, but not including, 11:00:00, according to "
        "/data/transfer.log?",
        files=_transfer,
        check=figure(859_082),
        reference="""
total = 0
for line in (DATA / "transfer.log").read_text().splitlines():
    day, time, host, what, size, _ = line.split()
    if day == "2024-05-03" and "10:00:00" <= time < "11:00:00" and what == "sent":
        total += int(size)
print(f"{total:,} bytes")
""",
        wrong={
            "the end included": ('< "11:00:00"', '<= "11:00:00"'),
            "the whole day": (' and "10:00:00" <= time < "11:00:00"', ""),
            "every day": ('day == "2024-05-03" and ', ""),
            "received as well": (' and what == "sent"', ""),
        },
    ),
    Task(
        name="rotated-logs",
        text="/data/app holds a log and its older parts: app.log, app.log.1 and app.log.2.gz. How many lines of level ERROR from the part "
        "payment do the three hold together?",
        files=_rotated,
        check=figure(80),
        reference="""
import gzip
texts = [(DATA / "app/app.log").read_bytes(), (DATA / "app/app.log.1").read_bytes()]
texts.append(gzip.decompress((DATA / "app/app.log.2.gz").read_bytes()))
count = 0
for line in b"".join(texts).decode().splitlines():
    count += line.split()[1:3] == ["ERROR", "payment:"]
print(count, "lines")
""",
        wrong={
            "without the packed one": ("texts.append(gzip.decompress(", "texts.append(b'' and ("),
            "the word anywhere": (
                'line.split()[1:3] == ["ERROR", "payment:"]',
                '"ERROR" in line and "payment" in line',
            ),
            "every part": ('[1:3] == ["ERROR", "payment:"]', '[1:2] == ["ERROR"]'),
        },
    ),
]
