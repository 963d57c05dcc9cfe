"""A runtime on which commands do not run is one error at the start, not a failure of each command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.commands.machine import runtime_setup
from agent.commands.machine.runtime_setup import ensure_gvisor, registered
from libs.sandbox.docker import runtimes
from libs.sandbox.docker.runtimes import check_runtime
from libs.sandbox.errors import DockerUnavailable, SandboxDied
from libs.sandbox.host.channel import Channel
from libs.sandbox.limits import SandboxLimits
from libs.sandbox.wire.frames import ANSWER, Ending, Kind, encode
from libs.sandbox.wire.messages import OutputReport, RunReport
from tests.fuzz.targets import Wire
from tests.support.hostile_wire import connected

LOST = ANSWER.pack(Ending.LOST, False)


def ended_with(code: int) -> bytes:
    return ANSWER.pack(Ending.DONE, True) + RunReport(code, 0.1, [OutputReport(0, 0, 0, b"")]).encode()


class TestFirstCommand:
    @pytest.mark.parametrize(("answer", "code"), [(LOST, 137), (ended_with(126), 126)])
    def test_failure_names_the_runtime_and_says_what_to_do(self, answer: bytes, code: int) -> None:
        with connected() as (wire, channel):
            wire.say(encode(1, Kind.END, answer))
            with pytest.raises(
                DockerUnavailable, match=f"'odd': `true` ended with exit code {code}"
            ) as failure:
                check_runtime(channel, "odd", SandboxLimits())
        assert "Unset SANDBOX_RUNTIME (in Python, leave the argument `runtime` out)" in failure.value.hint
        assert "make setup RUNTIME=runsc" in failure.value.hint

    def test_success_is_no_error(self) -> None:
        with connected() as (wire, channel):
            wire.say(encode(1, Kind.END, ended_with(0)))
            check_runtime(channel, "fine", SandboxLimits())

    def test_silence_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(runtimes, "_SECONDS", 0.1)
        with connected() as (_, channel), pytest.raises(DockerUnavailable, match=r"no answer for 0\.1 s"):
            check_runtime(channel, "silent", SandboxLimits())

    def test_end_before_the_supervisor_is_ready_is_told_apart(self) -> None:
        wire = Wire()
        channel = Channel(wire)
        wire.close()
        with pytest.raises(SandboxDied):
            check_runtime(channel, "dead", SandboxLimits())
        channel.close()


class TestSetup:
    def test_other_options_of_the_engine_stay(self) -> None:
        before = {"log-level": "warn", "runtimes": {"other": {"path": "/x"}}}
        once = registered(json.dumps(before).encode(), "/usr/bin/runsc")
        options = json.loads(once)
        assert options["log-level"] == "warn"
        assert options["runtimes"]["other"] == {"path": "/x"}
        assert options["runtimes"]["runsc"]["path"] == "/usr/bin/runsc"
        assert registered(once, "/usr/bin/runsc") == once

    @pytest.mark.parametrize("content", [b"", b"[]", b'{"runtimes": []}', b'{"a": 1', b"\xff"])
    def test_invalid_configuration_is_refused(self, content: bytes) -> None:
        with pytest.raises(DockerUnavailable, match=r"daemon\.json is not a valid configuration"):
            registered(content, "/usr/bin/runsc")

    @pytest.mark.parametrize("content", [None, b'{"log-level": "warn"}'])
    @pytest.mark.parametrize("end", [None, KeyboardInterrupt], ids=["refused", "Ctrl-C"])
    def test_configuration_without_the_engines_consent_is_taken_back(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        content: bytes | None,
        end: type[BaseException] | None,
    ) -> None:
        file = tmp_path / "docker" / "daemon.json"
        if content is not None:
            file.parent.mkdir()
            file.write_bytes(content)
        seen: list[bytes | None] = []

        def reload() -> str:
            seen.append(file.read_bytes() if file.exists() else None)
            if end and len(seen) == 1:
                raise end
            return "refused"

        for name, value in (
            ("_CONFIGURATION", file),
            ("_known", lambda: False),
            ("root_on_debian", lambda: True),
            ("endpoint", lambda: runtime_setup.DEFAULT_SOCKET),
            ("install_packages", lambda *_: None),
            ("_signal_engine", reload),
        ):
            monkeypatch.setattr(runtime_setup, name, value)
        with pytest.raises(end or DockerUnavailable, match=None if end else "refused"):
            ensure_gvisor(lambda _: None)
        first, last = seen
        assert first is not None
        assert "runsc" in json.loads(first)["runtimes"]
        assert last == content
        assert [each.name for each in file.parent.iterdir()] == ([] if content is None else ["daemon.json"])

    def test_user_without_root_learns_what_to_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(runtime_setup, "_known", lambda: False)
        monkeypatch.setattr(runtime_setup, "root_on_debian", lambda: False)
        with pytest.raises(DockerUnavailable, match="does not know the runtime runsc") as failure:
            ensure_gvisor(lambda _: None)
        assert "sudo" in failure.value.hint
        assert "setup --runtime runsc" in failure.value.hint
