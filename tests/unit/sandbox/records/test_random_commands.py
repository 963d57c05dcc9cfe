"""Random operations on the command log: no command runs twice."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from libs.sandbox import CommandInterrupted, CommandUnderWay, KeyReused
from libs.sandbox.errors import CommandStopped
from libs.sandbox.host.records import command_log, log_file
from libs.sandbox.host.records.command_log import CommandRecords, Entry
from libs.sandbox.process_owner import owner_label


class Commands(RuleBasedStateMachine):
    """Programs use one log, one after the other, and some are killed. Compared with a model."""

    KEYS = st.sampled_from(["a", "b", "c"])

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.known: dict[str, tuple[str, str | None]] = {}
        """Key -> command and result; None: no result."""
        self.running: set[str] = set()
        self.stopped: set[str] = set()
        self.runs: dict[str, int] = {}
        self.boots = 0
        self.start()

    def start(self) -> None:
        """Start a program whose owner label differs from all others."""
        self.boots += 1
        label = owner_label().replace('"began": ', f'"began": {self.boots}')
        with mock.patch.object(log_file, "owner_label", lambda: label):
            self.records = CommandRecords(Path(self.folder.name, "commands.sqlite"))
            self.records.submit(self.records.begun, "t", []).result()

    def teardown(self) -> None:
        self.records.close()
        command_log._under_way.clear()
        self.folder.cleanup()

    @rule(key=KEYS, what=st.sampled_from(["x", "x", "y"]))
    def begin(self, key: str, what: str) -> None:
        expected: object = None
        if key in self.known:
            digest, result = self.known[key]
            expected = (
                KeyReused
                if digest != what
                else CommandUnderWay
                if key in self.running
                else CommandStopped
                if key in self.stopped
                else CommandInterrupted
                if result is None
                else result
            )
        try:
            entry = Entry.of("t", key, what.encode())
            found: object = self.records.submit(self.records.begin, entry).result()
        except (KeyReused, CommandUnderWay, CommandInterrupted) as error:
            found = type(error)
        assert found == expected
        if found is None:
            self.known[key] = what, None
            self.running.add(key)
            self.runs[key] = self.runs.get(key, 0) + 1

    @rule(key=KEYS, how=st.sampled_from(["end", "interrupt", "stop", "withdraw"]), result=st.text())
    def settle(self, key: str, how: str, result: str) -> None:
        if key not in self.running:
            return
        what, _ = self.known[key]
        entry = Entry.of("t", key, what.encode())
        self.running.discard(key)
        if how == "end":
            result = result.encode("ascii", "backslashreplace").decode()
            self.records.submit(self.records.end, entry, result).result()
            self.known[key] = what, result
        elif how == "interrupt":
            self.records.submit(self.records.interrupt, entry).result()
        elif how == "stop":
            self.records.submit(self.records.stop, entry).result()
            self.stopped.add(key)
        else:
            self.records.submit(self.records.withdraw, entry).result()
            del self.known[key]
            self.runs[key] -= 1

    @rule(closed=st.booleans())
    def another_program(self, closed: bool) -> None:
        """Start the next program, after a kill or an orderly end."""
        before = self.records
        if closed:
            before.close()
        self.running.clear()
        command_log._under_way.clear()
        self.start()
        before.close()

    @rule()
    def forget(self) -> None:
        if not self.running:
            asyncio.run(self.records.forget("t"))
            self.known.clear()
            self.stopped.clear()
            self.runs.clear()

    @invariant()
    def nothing_runs_twice(self) -> None:
        assert all(count <= 1 for count in self.runs.values())
        assert self.records.submit(self.records.begun, "t", ["a", "b", "c"]).result() == self.known.keys()


TestCommands = Commands.TestCase
TestCommands.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
