"""Put load on sandboxes until the program is killed: `python -m tests.load FOLDER NAME SEED [shared|thread]`.

The program prints a line for each write that begins and each that is acknowledged: the worker, a tab, an
event of its ledger. With sandboxes for threads it uses two, beside a spare.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.docker.container import DockerSandbox
from tests.load.breaks import IMAGE, LIMITS, of_thread
from tests.load.crowd import Crowd, Place


def _tell(worker: str, line: str) -> None:
    # A single write, so that a killed program leaves whole lines.
    os.write(1, f"{worker}\t{line}\n".encode())


def _places(root: Path, name: str, scope: str) -> dict[str, Place]:
    if scope == "shared":
        return {"own": Place(DockerSandbox(root, image=IMAGE, name=name, limits=LIMITS), root)}
    backend = DockerExecutionBackend(root, image=IMAGE, name=name, limits=LIMITS, scope="thread", warm=1)
    return {thread: Place(of_thread(backend, thread), root / "threads" / thread) for thread in ("one", "two")}


def main() -> None:
    folder, name, seed, *scope = sys.argv[1:]
    places = _places(Path(folder), name, *(scope or ["shared"]))
    crowd = Crowd(places, seed=seed, harsh=False, tell=_tell)
    crowd.go()
    while not crowd.faults:
        time.sleep(0.05)
    sys.exit("\n".join(crowd.faults))


if __name__ == "__main__":
    main()
