"""One program in one fresh container: its environment, its results, and nothing left behind."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from libs.exec_tool import ExecResult
from libs.exec_tool.langchain_tool import execute_code_tool
from libs.exec_tool.program_runner import CodeRunner
from libs.redaction import SecretFilter
from libs.sandbox.docker.engine import shared_client
from libs.sandbox.docker.strays import NAME_LABEL
from tests.support.exec_tool.exec_runners import IMAGE, containers, runner
from tests.support.waiting import eventually

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


class TestEnvironment:
    def test_program_sees_its_own_folder_and_nothing_of_the_host(self, run: CodeRunner) -> None:
        code = """
import json, os, sys
mounts = {line.split()[1]: line.split() for line in open("/proc/mounts")}
print(json.dumps({
    "here": os.getcwd(), "workspace": mounts["/workspace"][2:4], "skills": os.listdir("/skills"),
    "uid": os.getuid(), "stdin": sys.stdin.read(), "env": sorted(os.environ), "there": sorted(os.listdir())}))
"""
        found = good(run.run(code))
        assert found["here"] == "/workspace"
        assert found["workspace"][0] == "tmpfs"
        assert "size=262144k" in found["workspace"][1]
        assert (found["skills"], found["there"]) == ([], ["data", "results", "scripts"])
        assert (found["uid"] != 0, found["stdin"]) == (True, "")
        assert "ARGS_JSON" in found["env"]
        assert not {name for name in os.environ if name.endswith("KEY")} & set(found["env"])

    def test_container_is_hardened(self, run: CodeRunner) -> None:
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

    @pytest.mark.parametrize("args", [None, "", {"a": [1, "ü"]}])
    def test_arguments_including_falsy_ones(self, run: CodeRunner, args: Any) -> None:
        code = "import json, os; print(json.dumps([json.loads(os.environ['ARGS_JSON'])]))"
        assert good(run.run(code, args=args)) == [args]


class TestResults:
    def test_separate_outputs_and_metrics(self, run: CodeRunner) -> None:
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

    def test_new_and_changed_files_come_back(self, run: CodeRunner) -> None:
        code = f"""
import os
assert (open("same.txt").read(), open("b.bin", "rb").read()) == ("grüße", {BINARY!r})
os.makedirs("a/b")
open("a/b/c.bin", "wb").write({BINARY!r})
open("changed.txt", "w").write("2")
os.symlink("/etc/passwd", "link")
os.mkfifo("pipe")
open("/tmp/elsewhere", "w").write("x")
1 / 0
"""
        binary = {"base64": base64.b64encode(BINARY).decode()}
        result = run.run(code, files={"changed.txt": "1", "same.txt": "grüße", "b.bin": binary})
        assert "ZeroDivisionError" in result.stderr, "files are those of a program that failed too"
        assert result.files == {"a/b/c.bin": BINARY, "changed.txt": b"2"}

    def test_files_over_the_limit_do_not_come_back(self, run: CodeRunner) -> None:
        code = """
import os
open("a", "w").write("a")
for name in ("large", "l\\\\a\\nrge "):
    open(name, "wb").write(bytes(70 << 20))
for number in range(20):
    os.symlink("a", f"link{number}")
print(1)
"""
        result = run.run(code, files={"large": "of the thread"}, thread="large")
        assert (result.error, result.result, result.files, result.removed) == (None, 1, {"a": b"a"}, ())
        assert "22 of the program's files were not returned: link0 (a link, FIFO or device), " in result.note
        assert ", 73,400,320 bytes (all files together may have 67,108,864 bytes)" in result.note
        assert result.note.count(" (") == 10

    @pytest.mark.parametrize(
        "code",
        [
            "os.chmod('/workspace', 0)",
            "shutil.rmtree('/tmp/run')",
            "subprocess.run('head -c 300M /dev/zero > /tmp/full', shell=True)",
        ],
    )
    def test_files_come_back_whatever_the_program_did_to_its_folders(
        self, run: CodeRunner, code: str
    ) -> None:
        code = f"import os, shutil, subprocess\nopen('new', 'w').write('1')\n{code}\nprint(1)"
        result = run.run(code, files={"old": "0"}, thread=code)
        assert (result.error, result.files, result.removed, result.note) == (None, {"new": b"1"}, (), "")

    def test_module_of_the_workspace_is_imported_whatever_its_name(self, run: CodeRunner) -> None:
        files = {"kv.py": "x = 1", "json.py": "x = 2"}
        result = run.run("import json, kv\nprint([kv.x, json.x])", files=files, thread="own")
        assert good(result) == [1, 2]
        assert good(run.run("import kv\nprint(len(kv.__all__))", thread="none")) == 4

    def test_links_are_followed_if_hard_and_named_if_not(self, run: CodeRunner) -> None:
        code = """
import os
open("a", "w").write("1")
os.link("a", "b")
os.symlink("a", "c")
os.mkfifo("d")
print(1)
"""
        result = run.run(code, thread="links")
        assert result.files == {"a": b"1", "b": b"1"}
        assert "2 of the program's files were not returned: " in result.note
        assert "c (a link, FIFO or device)" in result.note

    def test_result_of_an_output_that_is_too_long_is_not_guessed(self, run: CodeRunner) -> None:
        result = run.run("import json; print(json.dumps([{'a': n} for n in range(200_000)]))")
        assert result.result is None
        assert "Its output was cut" in result.note
        assert "characters left out …]" in result.stdout
        # The sandbox ends after the program, so no file of it is named, and none takes room.
        assert ".output" not in result.stdout


class TestThreads:
    def test_files_are_saved_and_removed_with_the_program(self, run: CodeRunner) -> None:
        run.run("open('x', 'w').close(); open('helpers.py', 'w').write('ANSWER = 42')", thread="b")
        assert run.run("import os; os.unlink('x')", thread="b").removed == ("x",)
        code = "import os, json, helpers; print(json.dumps([os.path.exists('x'), helpers.ANSWER]))"
        assert good(run.run(code, thread="b")) == [False, 42]

    def test_saved_program_stays_executable(self, run: CodeRunner) -> None:
        run.run("echo 'echo it runs' > it.sh; chmod 700 it.sh", language="bash", thread="modes")
        assert run.run("./it.sh", language="bash", thread="modes").stdout == "it runs\n"

    def test_other_threads_do_not_see_the_files(self, run: CodeRunner) -> None:
        run.run("open('secret', 'w').close()", thread="c")
        look = "import os, json; print(json.dumps(os.path.exists('secret')))"
        assert good(run.run(look, thread="d")) is False
        assert good(run.run(look)) is False

    async def test_programs_of_a_thread_run_one_after_the_other(self, run: CodeRunner) -> None:
        code = (
            "n = int(open('n').read()) if __import__('os').path.exists('n') else 0\n"
            "open('n', 'w').write(str(n + 1))\nprint(n + 1)"
        )
        done = await asyncio.gather(*(run.arun(code, thread="e") for _ in range(4)))
        assert sorted(each.result for each in done) == [1, 2, 3, 4]

    def test_no_process_or_file_outlives_a_program(self, run: CodeRunner) -> None:
        leaving = (
            "import os, time\nif os.fork() == 0:\n    open('/tmp/mark', 'w').close()\n    time.sleep(60)"
        )
        run.run(leaving, thread="f")
        look = (
            "import os, json\nrunning = [each for each in os.listdir('/proc') if each.isdigit()]\n"
            "print(json.dumps([os.path.exists('/tmp/mark'), len(running) < 20]))"
        )
        assert good(run.run(look, thread="f")) == [False, True]

    def test_broken_sandbox_loses_no_file_of_the_thread(self, run: CodeRunner) -> None:
        run.run("open('kept', 'w').close()", thread="g")
        result = run.run(
            "prlimit --pid 1 --nproc=1 --nofile=3; sleep 1; true & true", language="bash", thread="g"
        )
        assert result.removed == ()
        assert good(run.run("import os, json; print(json.dumps(os.path.exists('kept')))", thread="g")) is True


def test_secret_is_redacted_only_in_its_file(tmp_path: Path) -> None:
    """Redacting the whole archive would shift everything after the secret."""
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
        assert result.note == (
            "Known secrets in the content or name of 2 of the program's files were replaced by [REDACTED]: "
            "'[REDACTED]', 'b'."
        )
        assert result.files["[REDACTED]"] == b"named"
        assert key.encode() not in b"".join(result.files.values())


def test_files_come_back_beside_what_cannot_be_read(run: CodeRunner) -> None:
    """A file and a folder of mode 000, and names that are longer than a path may be."""
    assert good(run.run("open('kept', 'w').write('1'); print(1)", thread="unread")) == 1
    code = """
import os
for name in ("kept", "good", "closed 1", "closed 2"):
    open(name, "w").write(name)
    if name != "good":
        os.chmod(name, 0)
os.mkdir("shut", 0)
os.mkdir("deep")
os.chdir("deep")
for _ in range(1500):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
open("leaf", "w").write("leaf")
print(2)
"""
    result = run.run(code, thread="unread")
    assert good(result) == 2
    assert (result.files, result.removed) == ({"good": b"good"}, ())
    assert "files were not returned: " in result.note
    assert "Cannot open: Permission denied" in result.note
    assert result.note.endswith(" Earlier content of 1 of the thread's files stays: 'kept'.")
    after = run.run("import os, json; print(json.dumps(sorted(os.listdir())))", thread="unread")
    assert good(after) == ["data", "good", "kept", "results", "scripts"]


class TestWithoutApplication:
    """`libs/exec_tool` without an application: as a function and as a LangChain tool."""

    def test_function(self) -> None:
        from libs.exec_tool import code_runner

        with code_runner(IMAGE) as run:
            assert run("print(6 * 7)").result == 42
            failed = run("import urllib.request; urllib.request.urlopen('http://example.com', timeout=5)")
        assert failed.error and failed.error.kind == "network"
        assert failed.error.hint.startswith("This runner has no network")

    async def test_langchain_tool(self, run: CodeRunner, tmp_path: Path) -> None:
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

    def test_long_output_is_cut(self, run: CodeRunner) -> None:
        tool = execute_code_tool(run, shown_chars=1_000)
        args = {"code": "print('x' * 100_000); print(list(range(10_000)))"}
        message = tool.invoke({"name": "execute_code", "args": args, "id": "1", "type": "tool_call"})
        assert len(message.content) < 6_000
        assert message.artifact["result"] == list(range(10_000))


class TestWithoutDocker:
    def test_missing_docker_is_an_error_with_a_hint(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with runner(tmp_path, name=f"{NAME}-none") as run, monkeypatch.context() as elsewhere:
            elsewhere.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
            result = run.run("print(1)")
        assert result.error and result.error.kind == "sandbox"
        assert "docker" in result.error.hint.lower()
