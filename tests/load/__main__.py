"""A program that only works, until it is killed: `python -m tests.load FOLDER NAME SEED`.

It prints what it writes and what was acknowledged, a line each: the worker, a tab, an event of its ledger.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from libs.sandbox import SandboxLimits
from libs.sandbox.container import DockerSandbox
from tests.load.crowd import Crowd, Place


def _tell(worker: str, line: str) -> None:
    # One write: a killed program leaves whole lines.
    os.write(1, f"{worker}\t{line}\n".encode())


def main() -> None:
    folder, name, seed = sys.argv[1:]
    limits = SandboxLimits(memory=256 * 2**20, tmp=32 * 2**20)
    image = os.environ.get("SANDBOX_IMAGE", "code-execution-agent")
    sandbox = DockerSandbox(Path(folder), image=image, name=name, limits=limits)
    crowd = Crowd({"own": Place(sandbox, Path(folder))}, seed=seed, harsh=False, tell=_tell)
    crowd.go()
    while not crowd.faults:
        time.sleep(0.05)
    sys.exit("\n".join(crowd.faults))


if __name__ == "__main__":
    main()
