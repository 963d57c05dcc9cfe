"""One target under atheris (libFuzzer): started by `python -m tests.fuzz`, in a process of its own."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["libs.sandbox"]):
    from tests.fuzz.targets import TARGETS

if __name__ == "__main__":
    name, seconds, corpus = sys.argv[1:]
    options = [f"-max_total_time={seconds}", "-max_len=600", "-timeout=60", "-rss_limit_mb=1024"]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={corpus}/crash-", corpus], TARGETS[name])
    atheris.Fuzz()
