"""The file tools on small files, and one large one up and down."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

from libs.backends.docker import DockerExecutionBackend
from tests.bench.measure import Figure, interleaved

MEGABYTES = 50


def figures(backend: DockerExecutionBackend) -> Iterator[Figure]:
    backend.execute(
        "mkdir -p /workspace/small; for i in $(seq 20); do seq 100 > /workspace/small/$i.txt; done"
    )
    number = itertools.count()
    turn = itertools.cycle([("one", "two"), ("two", "one")])
    backend.upload_files([("/workspace/small/edit.txt", b"line one\n")])
    times = interleaved(
        {
            "read": lambda: backend.read("/workspace/small/1.txt"),
            "write": lambda: backend.write(f"/workspace/small/new/{next(number)}.txt", "hello\n"),
            "edit": lambda: backend.edit("/workspace/small/edit.txt", *next(turn)),
            "ls": lambda: backend.ls("/workspace/small"),
            "glob": lambda: backend.glob("*.txt", "/workspace/small"),
            "grep": lambda: backend.grep("77", "/workspace/small"),
        },
        rounds=100,
    )
    for name, limit in {"read": 3, "write": 3, "edit": 3, "ls": 3, "glob": 3, "grep": 5}.items():
        median = times.median(name) * 1000
        spread = (times.percentile(name, 5) * 1000, times.percentile(name, 95) * 1000)
        yield Figure(
            f"{name} of a small file",
            "ms",
            {"sandbox": median},
            f"at most {limit} ms",
            median <= limit,
            {"sandbox": spread},
        )
    content = b"x" * (MEGABYTES * 1_000_000)
    for name in ("up", "down"):
        rates = []
        for _ in range(5):
            begun = time.perf_counter()
            if name == "up":
                assert backend.upload_files([("/workspace/large.bin", content)])[0].error is None
            else:
                assert backend.download_files(["/workspace/large.bin"])[0].content == content
            rates.append(MEGABYTES / (time.perf_counter() - begun))
        rates.sort()
        yield Figure(f"{MEGABYTES} MB {name}", "MB/s", {"sandbox": rates[2]}, "printed only", True)
