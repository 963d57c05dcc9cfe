"""Measures the time that a decision by rule or by effect adds to a command."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from libs.backends.docker import DockerExecutionBackend
from libs.middleware.approvals import Rules
from libs.middleware.approvals.effects import free_changes
from libs.persistence.thread_database import SqliteDatabase
from libs.sandbox import RunResult
from libs.sandbox.host import OUTSIDE, CommandRecords, core
from libs.workspace import Catalog, Contents, WorkspaceStore
from libs.workspace.history import Effect, EffectRuns, TurnCaptures, WorkspaceLocks
from libs.workspace.ledger import Ledger
from tests.bench.bench_sandboxes import image, runtime
from tests.bench.measure import Figure, interleaved

_RULES = 20
_RULE = """[[rule]]
tool = "execute"
prefix = ["program-{number}", ["status", "diff", "log"]]
decision = "allow"
"""
_ECHO = """[[rule]]
tool = "execute"
prefix = ["echo"]
decision = "allow"
"""
_LONGER = "cd /workspace && cat data/sales.csv | grep -v south{} > /dev/null; echo hi"
_TEN = "mkdir -p /results/ten; for i in 1 2 3 4 5 6 7 8 9 10; do echo $RANDOM > /results/ten/$i; done"
_FILL = (
    "mkdir -p /workspace/many; cd /workspace/many; for i in $(seq 100); do mkdir $i; touch $i/{1..99}; done"
)
_SETTLED = 1.2
"""Seconds until a capture trusts the times of files that were changed."""


def figures(root: Path) -> Iterator[Figure]:
    yield _rule(root)
    with _Effects(root / "small") as small:
        yield small.figure("echo hi", "`echo hi`", 15)
    with _Effects(root / "many") as many:
        many.run(_FILL)
        time.sleep(_SETTLED)
        yield many.figure(_TEN, "a command that writes ten files beside 10,000", 250)


def _rule(root: Path) -> Figure:
    root.mkdir(parents=True)
    file = root / "rules.toml"
    file.write_text("".join(_RULE.format(number=number) for number in range(_RULES)) + _ECHO)
    rules, number = Rules.load(file), itertools.count()
    times = interleaved(
        {
            # Another text each time: decisions about the same text are remembered.
            "sandbox": lambda: rules.decide("execute", {"command": f"echo hi {next(number)}"}),
            "of a longer command": lambda: rules.decide("execute", {"command": _LONGER.format(next(number))}),
        },
        rounds=300,
    )
    what = f"a decision by {_RULES + 1} rules about `echo hi`"
    return times.figure(what, "at most 1 ms", times.median("sandbox") <= 0.001)


class _Effects:
    """A sandbox whose commands run between two captures."""

    def __init__(self, root: Path) -> None:
        self._backend = DockerExecutionBackend(
            root / "workspace",
            name="bench-approvals",
            image=image(),
            runtime=runtime(),
            records=CommandRecords(root / "commands.sqlite"),
        )
        self._sandbox = self._backend.sandbox
        self._number = itertools.count()
        database = SqliteDatabase(root / "threads.sqlite")
        captures = TurnCaptures(
            WorkspaceStore(Catalog(database), Contents(str(root / "contents"))),
            Ledger(database),
            lambda _: self._sandbox,
            shared=False,
        )
        captures.locks = WorkspaceLocks(root / "locks")
        self._runs = EffectRuns(captures, free_changes(["/results/**"]))

    def __enter__(self) -> _Effects:
        return self

    def __exit__(self, *_: object) -> None:
        self._backend.close()

    def run(self, command: str) -> None:
        result = core().wait(self._ran(command, str(next(self._number)), alone=False))
        assert result.exit_code == 0, result.output

    def figure(self, command: str, what: str, most: float) -> Figure:
        times = interleaved(
            {"without": lambda: self.run(command), "sandbox": lambda: self._decided(command)}, rounds=60
        )
        more = (times.median("sandbox") - times.median("without")) * 1000
        return times.figure(
            f"an effect of {what}", f"at most {most} ms more", more <= most, note=f"{more:.1f} ms more"
        )

    def _decided(self, command: str) -> None:
        key = str(next(self._number))
        effect = core().wait(self._runs.run(OUTSIDE, key, partial(self._ran, command, key, alone=True)))
        assert isinstance(effect, Effect), effect
        assert effect.free, effect.difference

    async def _ran(self, command: str, key: str, *, alone: bool) -> RunResult:
        return await self._sandbox.arun(command, key=key, alone=alone)
