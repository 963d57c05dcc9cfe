"""What it costs to look for secrets: commands and a large file, with a filter and without one."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from libs.backends.docker import DockerExecutionBackend
from libs.gateway.redaction import SecretFilter
from tests.bench.measure import Figure, interleaved
from tests.bench.sandboxes import image

MEGABYTES = 50
SECRETS = 5


def figures(root: Path) -> Iterator[Figure]:
    known = SecretFilter({f"KEY_{number}": f"sk-{secrets.token_urlsafe(30)}" for number in range(SECRETS)})
    flood = f"head -c {MEGABYTES}000000 /dev/zero | tr '\\0' x"
    with (
        DockerExecutionBackend(root / "without", name="bench", image=image()) as without,
        DockerExecutionBackend(root / "filter", name="bench", image=image(), redact=known) as filtering,
    ):
        backends = {"without": without, "filter": filtering}
        for backend in backends.values():
            backend.execute(f"head -c {MEGABYTES}000000 /dev/urandom > /workspace/large.bin")
        for name, do, rounds, most in (
            ("echo hi", lambda backend: backend.execute("echo hi"), 200, 1.1),
            (f"{MEGABYTES} MB of output", lambda backend: backend.execute(flood), 7, 1.1),
            (
                f"{MEGABYTES} MB down",
                lambda backend: backend.download_files(["/workspace/large.bin"]),
                7,
                None,
            ),
        ):
            times = interleaved(
                {each: partial(do, backend) for each, backend in backends.items()}, rounds=rounds, warm_up=2
            )
            yield times.figure(
                f"{name}, looking for {SECRETS} secrets",
                f"at most {most} x without" if most else "printed only",
                most is None or times.median("filter") <= most * times.median("without"),
            )
