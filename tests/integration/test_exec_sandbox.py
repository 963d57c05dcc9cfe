"""One program, one fresh container: what it finds, what comes back, that nothing of it is left (X1 to X4)."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.config import ROOT
from libs.exec_tool import ExecResult
from libs.exec_tool.runner import CodeRunner
from libs.exec_tool.tool import CALL, execute_code_tool
from libs.gateway.redaction import SecretFilter
from libs.sandbox.engine import shared_client
from libs.sandbox.records import CommandRecords
from libs.sandbox.strays import NAME_LABEL
from tests.integration.exec_runners import IMAGE, containers, runner
from tests.waiting import eventually

pytestmark = pytest.mark.docker

NAME = f"test-exec-{secrets.token_hex(3)}"
BINARY = bytes(range(256)) * 4


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeRunner]:
    with runner(tmp_path_factory.mktemp("exec"), name=NAME) as made:
        yield made


def good(result: ExecResult) -> Any:
    assert result.error is None, (result.error, result.stderr)
    return result.result


class TestWhatItFinds:
    def test_a_folder_of_its_own_and_nothing_of_the_host(self, run: CodeRunner) -> None:
        code = """
import json, os
mounts = {line.split()[1]: line.split() for line in open("/proc/mounts")}
print(json.dumps({
    "here": os.getcwd(), "workspace": mounts["/workspace"][2:4], "skills": os.listdir("/skills"),
    "uid": os.getuid(), "env": sorted(os.environ), "there": sorted(os.listdir())}))
"""
        found = good(run.run(code))
        assert found["here"] == "/workspace"
        assert found["workspace"][0] == "tmpfs"
        assert "size=262144k" in found["workspace"][1]
        assert (found["skills"], found["there"]) == ([], ["data", "results", "scripts"])
        assert found["uid"] != 0
        assert "ARGS_JSON" in found["env"]
        assert not {name for name in os.environ if name.endswith("KEY")} & set(found["env"])

    def test_its_container_is_hardened_as_every_other(self, run: CodeRunner) -> None:
        run.prepare()
        running = {"label": f"{NAME_LABEL}={NAME}"}
        eventually(lambda: shared_client().api.containers(filters=running))
        described = shared_client().api.inspect_container(containers(NAME)[0])
        host = described["HostConfig"]
        assert (host["CapDrop"], host["ReadonlyRootfs"], host["NetworkMode"]) == (["ALL"], True, "none")
        assert host["SecurityOpt"] == ["no-new-privileges"]
        assert host["Memory"] == host["MemorySwap"] == 2 << 30
        assert not host.get("Mounts")
        assert "/workspace" in host["Tmpfs"]

    @pytest.mark.parametrize("args", [None, 0, False, "", [], {}, "text", {"a": [1, "ü"]}])
    def test_arguments_falsy_ones_too(self, run: CodeRunner, args: Any) -> None:
        code = "import json, os; print(json.dumps([json.loads(os.environ['ARGS_JSON'])]))"
        assert good(run.run(code, args=args)) == [args]

    def test_files_text_and_binary(self, run: CodeRunner) -> None:
        files = {"in/a.txt": "grüße", "b.bin": {"base64": base64.b64encode(BINARY).decode()}}
        code = (
            "import json; print(json.dumps([open('in/a.txt').read(), list(open('b.bin', 'rb').read()[:3])]))"
        )
        assert good(run.run(code, files=files)) == ["grüße", [0, 1, 2]]

    def test_bash_too(self, run: CodeRunner) -> None:
        result = run.run(
            'set -e; echo "args: $ARGS_JSON" >&2; jq -n "$ARGS_JSON" ', language="bash", args={"a": 1}
        )
        assert good(result) == {"a": 1}
        assert result.stderr == 'args: {"a": 1}\n'

    def test_standard_input_is_empty(self, run: CodeRunner) -> None:
        assert good(run.run("import sys; print(len(sys.stdin.read()))")) == 0


class TestWhatComesBack:
    def test_outputs_apart_and_metrics(self, run: CodeRunner) -> None:
        result = run.run(
            "import sys, time; print('out'); print('err', file=sys.stderr); time.sleep(0.3); print(7)"
        )
        assert (result.stdout, result.stderr, result.result) == ("out\n7\n", "err\n", 7)
        told = result.metrics
        assert told.exit_code == 0
        assert 0.3 <= told.run <= told.total
        assert told.sandbox > 0
        assert told.install == 0 and told.cache_hit is None
        assert told.peak_memory and told.peak_memory > 5_000_000
        assert told.cpu and told.cpu > 0

    def test_new_and_changed_files_nested_and_binary(self, run: CodeRunner) -> None:
        code = f"""
import os
os.makedirs("a/b")
open("a/b/c.bin", "wb").write({BINARY!r})
open("changed.txt", "w").write("2")
os.symlink("/etc/passwd", "link")
os.mkfifo("pipe")
open("/tmp/elsewhere", "w").write("x")
"""
        result = run.run(code, files={"changed.txt": "1", "same.txt": "1"})
        assert result.error is None
        assert result.files == {"a/b/c.bin": BINARY, "changed.txt": b"2"}

    def test_a_file_with_the_size_and_time_of_before_has_changed_all_the_same(self, run: CodeRunner) -> None:
        code = (
            "import os\nat = os.stat('x')\nopen('x', 'w').write('2')\n"
            "os.utime('x', ns=(at.st_atime_ns, at.st_mtime_ns))"
        )
        assert run.run(code, files={"x": "1"}).files == {"x": b"2"}

    def test_files_are_those_of_a_program_that_failed_too(self, run: CodeRunner) -> None:
        result = run.run("open('partial', 'w').write('1')\n1/0")
        assert (result.ok, result.files) == (False, {"partial": b"1"})

    def test_more_than_comes_back(self, run: CodeRunner) -> None:
        result = run.run("open('large', 'wb').write(bytes(70 << 20)); print(1)")
        assert (result.error, result.result, result.files) == (None, 1, {})
        assert "at most 67,108,864 come back" in result.note

    def test_names_that_nobody_can_keep(self, run: CodeRunner) -> None:
        result = run.run("open(b'bad\\xff', 'w').close(); open('fine', 'w').close(); print(1)")
        assert set(result.files) == {"fine"}
        assert "1 of its files did not come back" in result.note

    def test_output_while_it_comes(self, run: CodeRunner) -> None:
        seen: list[tuple[float, bytes]] = []
        run.run(
            "import time; print('first', flush=True); time.sleep(1); print('last')",
            on_output=lambda data: seen.append((time.monotonic(), data)),
        )
        assert b"".join(data for _, data in seen) == b"first\nlast\n"
        assert seen[-1][0] - seen[0][0] > 0.8

    def test_a_large_result_is_whole(self, run: CodeRunner) -> None:
        assert good(run.run("import json; print(json.dumps(list(range(100_000))))")) == list(range(100_000))

    @pytest.mark.parametrize(
        ("printed", "result"),
        [("[1]\\n[2]", [2]), ("nothing", None), ('{"a": NaN}', {"a": None}), ("[" * 500 + "]" * 500, None)],
    )
    def test_results(self, run: CodeRunner, printed: str, result: Any) -> None:
        done = run.run(f"print({printed!r}.replace('\\\\n', chr(10)))")
        assert (done.error, done.result) == (None, result)
        assert bool(done.note) is (result is None)

    def test_binary_output(self, run: CodeRunner) -> None:
        done = run.run("import sys; sys.stdout.buffer.write(bytes(range(256)) + b'\\n[1]\\n')")
        assert (done.error, done.result) == (None, [1])


class TestThreads:
    def test_a_helper_saved_in_one_step_is_imported_in_a_later_one(self, run: CodeRunner) -> None:
        run.run("open('helpers.py', 'w').write('def double(x): return 2 * x\\n')", thread="a")
        assert good(run.run("import helpers; print(helpers.double(21))", thread="a")) == 42

    def test_what_was_removed_is_gone(self, run: CodeRunner) -> None:
        run.run("open('x', 'w').close(); open('y', 'w').close()", thread="b")
        assert run.run("import os; os.unlink('x')", thread="b").removed == ("x",)
        assert good(
            run.run("import os, json; print(json.dumps([n for n in 'xy' if os.path.exists(n)]))", thread="b")
        ) == ["y"]

    def test_no_other_thread_sees_it_and_none_without_a_thread(self, run: CodeRunner) -> None:
        run.run("open('secret', 'w').close()", thread="c")
        look = "import os, json; print(json.dumps(os.path.exists('secret')))"
        assert good(run.run(look, thread="d")) is False
        assert good(run.run(look)) is False

    async def test_two_at_once_in_a_thread_come_one_after_the_other(self, run: CodeRunner) -> None:
        code = (
            "n = int(open('n').read()) if __import__('os').path.exists('n') else 0\n"
            "open('n', 'w').write(str(n + 1))\nprint(n + 1)"
        )
        done = await asyncio.gather(*(run.arun(code, thread="e") for _ in range(4)))
        assert sorted(each.result for each in done) == [1, 2, 3, 4]

    def test_nothing_runs_on_or_lies_about(self, run: CodeRunner) -> None:
        leaving = (
            "import os, time\nif os.fork() == 0:\n    open('/tmp/mark', 'w').close()\n    time.sleep(60)"
        )
        run.run(leaving, thread="f")
        look = (
            "import os, json\nrunning = [each for each in os.listdir('/proc') if each.isdigit()]\n"
            "print(json.dumps([os.path.exists('/tmp/mark'), len(running) < 20]))"
        )
        assert good(run.run(look, thread="f")) == [False, True]

    def test_a_program_that_ends_its_sandbox_loses_no_file_of_the_thread(self, run: CodeRunner) -> None:
        run.run("open('kept', 'w').close()", thread="g")
        result = run.run(
            "prlimit --pid 1 --nproc=1 --nofile=3; sleep 1; true & true", language="bash", thread="g"
        )
        assert result.removed == ()
        assert good(run.run("import os, json; print(json.dumps(os.path.exists('kept')))", thread="g")) is True


def test_a_secret_in_a_file_is_taken_out_of_that_file_alone(tmp_path: Path) -> None:
    """Taken out of the archive, it would shift all that comes after."""
    key = "key-5e9b1f7c2a8d"
    known = SecretFilter({"KEY": key})
    with runner(tmp_path, redact=known, environment={"KEY": key}) as run:
        assert good(run.run("open('earlier', 'w').write('1' * 4000); print('[1]')", thread="s")) == [1]
        code = """
import os
for name in ("a", "b", "c"):
    open(name, "w").write(f"{name} {os.environ['KEY']}\\n" * (name == "b") + name * 3000)
open(os.environ["KEY"], "w").write("named")
print("[2]")
"""
        result = run.run(code, thread="s")
        assert good(result) == [2]
        assert result.removed == ()
        assert {name: len(content) for name, content in result.files.items() if name in "ac"} == {
            "a": 3000,
            "c": 3000,
        }
        assert result.files["b"].startswith(b"b [REDACTED]\nbbb")
        assert result.files["[REDACTED]"] == b"named"
        assert key.encode() not in b"".join(result.files.values())


class TestNothingIsLeft:
    @pytest.mark.parametrize(
        "code", ["print(1)", "1/0", "import os; os.kill(os.getppid(), 9)", "while True: pass"]
    )
    def test_after_the_end(self, tmp_path: Path, code: str) -> None:
        with runner(tmp_path, name="test-exec-left", seconds=3, warm=0) as run:
            run.run(code)
            eventually(lambda: containers("test-exec-left") == [])

    async def test_after_a_cancellation(self, tmp_path: Path) -> None:
        with runner(tmp_path, name="test-exec-cancel", warm=0) as run:
            work = asyncio.create_task(run.arun("import time; time.sleep(60)"))
            await asyncio.to_thread(eventually, lambda: containers("test-exec-cancel"))
            await asyncio.sleep(0.5)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            await asyncio.to_thread(eventually, lambda: containers("test-exec-cancel") == [])

    def test_after_the_end_of_the_host(self, tmp_path: Path) -> None:
        program = f"""
import sys, threading
from pathlib import Path
from tests.integration.exec_runners import runner
with runner(Path({str(tmp_path)!r}), name="test-exec-killed") as run:
    threading.Timer(2, lambda: print("on", flush=True)).start()
    run.run("import time; time.sleep(60)")
"""
        host = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE)
        assert host.stdout and host.stdout.readline() == b"on\n"
        assert containers("test-exec-killed")
        host.kill()
        host.wait()
        host.stdout.close()
        eventually(lambda: containers("test-exec-killed") == [], 5)


class TestOnce:
    """A run that is executed again after a kill runs no program twice (S16)."""

    def test_what_has_ended_gives_what_it_gave(self, tmp_path: Path) -> None:
        code = "import time; open('x', 'w').write('1'); print(time.time())"
        for keep in (True, False):
            with runner(
                tmp_path / str(keep), keep=keep, runner_records=CommandRecords(tmp_path / f"{keep}.sqlite")
            ) as run:
                first = run.run(code, thread="1", key="k")
                again = run.run(code, thread="1", key="k")
                assert (again.result, again.files) == (first.result, {"x": b"1"})
                assert run.run(code, thread="1", key="other").result != first.result
                assert run.run(code, thread="2", key="k").result != first.result

    def test_another_program_has_another_key(self, tmp_path: Path) -> None:
        with runner(tmp_path, runner_records=CommandRecords(tmp_path / "records.sqlite")) as run:
            run.run("print(1)", key="k")
            error = run.run("print(2)", key="k").error
            assert error and error.kind == "sandbox"

    def test_what_was_cut_off_is_not_run_again(self, tmp_path: Path) -> None:
        code = "import kv, time; time.sleep(60)"
        program = f"""
import threading
from pathlib import Path
from libs.sandbox.records import CommandRecords
from tests.integration.exec_runners import runner
root = Path({str(tmp_path)!r})
with runner(root, name="test-exec-once", runner_records=CommandRecords(root / "r.sqlite")) as run:
    threading.Timer(3, lambda: print("on", flush=True)).start()
    run.run({code!r}, thread="1", key="k")
"""
        host = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE)
        assert host.stdout and host.stdout.readline() == b"on\n"
        host.kill()
        host.wait()
        host.stdout.close()
        with runner(tmp_path, runner_records=CommandRecords(tmp_path / "r.sqlite")) as run:
            result = run.run(code, thread="1", key="k")
        assert result.error and result.error.kind == "interrupted"
        assert "Look at what is there" in result.error.hint


class TestAlone:
    """`libs/exec_tool` without an application: a plain function, and a LangChain tool."""

    def test_as_a_function(self) -> None:
        from libs.exec_tool import code_runner

        with code_runner(IMAGE) as run:
            assert run("print(6 * 7)").result == 42

    async def test_as_a_tool(self, run: CodeRunner, tmp_path: Path) -> None:
        with runner(tmp_path, keep=False) as plain:
            tool = execute_code_tool(plain)
            call = {
                "name": "execute_code",
                "args": {"code": "open('x', 'w').write('1'); print(7)"},
                "id": "1",
                "type": "tool_call",
            }
            for message in (tool.invoke(call), await tool.ainvoke(call)):
                told = json.loads(message.content)
                assert (told["ok"], told["result"], told["files"]) == (True, 7, [{"path": "x", "size": 1}])
                assert message.artifact["files"] == [{"path": "x", "size": 1, "base64": "MQ=="}]

    def test_a_bad_call_is_an_answer(self, run: CodeRunner) -> None:
        tool = execute_code_tool(run)
        call = {
            "name": "execute_code",
            "args": {"code": "print(1)", "shell": True},
            "id": "1",
            "type": "tool_call",
        }
        message = tool.invoke(call)
        assert message.status == "error"
        assert json.loads(message.content)["error"]["class"] == "input"

    def test_long_output_is_shown_cut(self, run: CodeRunner) -> None:
        tool = execute_code_tool(run, shown_chars=1_000)
        call = {
            "name": "execute_code",
            "args": {"code": "print('x' * 100_000); print(list(range(10_000)))"},
            "id": "1",
            "type": "tool_call",
        }
        token = CALL.set(("1", None))
        message = tool.invoke(call)
        CALL.reset(token)
        assert len(message.content) < 6_000
        assert message.artifact["result"] == list(range(10_000))


class TestDockerIsMissing:
    def test_it_is_an_answer_with_what_mends_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with runner(tmp_path, name="test-exec-none") as run, monkeypatch.context() as elsewhere:
            elsewhere.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
            result = run.run("print(1)")
        assert result.error and result.error.kind == "sandbox"
        assert "docker" in result.error.hint.lower()
