"""Fuzz the protocol: `python -m tests.fuzz [decoder|channel|messages|supervisor …] [--seconds N]`.

With `atheris` installed the run is guided by coverage; without it hypothesis makes up the input. `supervisor`
feeds a real supervisor, as a process of its own without a container, what hypothesis makes up.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "artifacts" / "fuzz"


def main() -> int:
    names = ["decoder", "channel", "messages", "supervisor"]
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="target", help=f"of {', '.join(names)}; all by default")
    parser.add_argument("--seconds", type=int, default=60, help="how long each is fuzzed (60)")
    asked = parser.parse_args()
    if unknown := set(asked.targets) - set(names):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    failed = []
    for name in asked.targets or names:
        guided = name != "supervisor" and find_spec("atheris") is not None
        print(f"{name}: {'guided by coverage' if guided else 'by hypothesis'}, {asked.seconds} s", flush=True)
        module = "tests.fuzz.guided" if guided else "tests.fuzz.unguided"
        CORPUS.joinpath(name).mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", module, name, str(asked.seconds), str(CORPUS / name)]
        failed += [name] * bool(subprocess.run(command, cwd=ROOT, check=False).returncode)
    print(f"failed: {', '.join(failed)}" if failed else "nothing found")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
