"""A known secret inside the sandbox leaves the sandbox only as `[REDACTED]`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.code_blocks import SandboxRunner
from libs.redaction import SecretFilter
from libs.sandbox import FileFailed, SandboxDied
from libs.sandbox.docker.container import DockerSandbox
from libs.sandbox.docker.engine import shared_client
from tests.support.canary_texts import CANARY, KNOWN, MARK, TOKEN, assert_clean

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def computer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerExecutionBackend]:
    root = tmp_path_factory.mktemp("redacted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANARY_KEY", CANARY)
        patch.setenv("CANARY_TOKEN", TOKEN)
        with DockerExecutionBackend(
            root, env_allow=["CANARY_*"], name="redact", redact=KNOWN, suspect=suspect
        ) as made:
            yield made


searched: list[tuple[str, bool]] = []
"""Outputs that were searched for unknown secrets, each with whether the search ran on the event loop."""


def suspect(output: str, call_id: str | None) -> None:
    searched.append((output, threading.current_thread() is threading.main_thread()))


def python(code: str) -> str:
    head = "import os, base64, json, sys\nfrom urllib.parse import quote, quote_plus"
    return f"python3 - <<'E'\n{head}\nk = os.environ['CANARY_KEY']\n{code}\nE"


class TestCommands:
    @pytest.mark.parametrize(
        "command",
        [
            "env; export -p; declare -p CANARY_TOKEN; set",
            'set -x; : "$CANARY_KEY"',
            "echo $CANARY_TOKEN | base64",
            "printf %s $CANARY_TOKEN | xxd -p || printf %s $CANARY_TOKEN | od -An -tx1 | tr -d ' '",
            "echo $CANARY_TOKEN | fold -w 20",
            python("print(base64.urlsafe_b64encode(b'?' + k.encode()).decode().rstrip('='))"),
            python("print(quote(k), quote(k, safe=''), quote_plus(k))"),
            python("print(json.dumps({'key': k}), repr(k), k.encode())"),
            "cat /proc/self/environ",
        ],
    )
    def test_output_is_redacted(self, computer: DockerExecutionBackend, command: str) -> None:
        live: list[bytes] = []
        result = computer.sandbox.run(command, on_output=live.append)
        assert MARK in result.output
        assert_clean(result.output)
        assert b"".join(live).decode() == result.output

    def test_separate_stderr_is_redacted(self, computer: DockerExecutionBackend) -> None:
        result = computer.sandbox.run('echo "$CANARY_KEY"; echo "e $CANARY_KEY" >&2', merge_stderr=False)
        assert (result.output, result.stderr) == (f"{MARK}\n", f"e {MARK}\n")

    async def test_secret_printed_in_pieces_is_redacted(self, computer: DockerExecutionBackend) -> None:
        assert isinstance(computer.sandbox, DockerSandbox)
        workspace = computer.sandbox.root
        live: list[bytes] = []

        def show(data: bytes) -> None:
            live.append(data)
            (workspace / f"shown-{len(live)}").touch()

        wait = "until [ -e shown-{} ]; do sleep 0.02; done"
        command = (
            f"echo one; printf %s ${{CANARY_TOKEN:0:9}}; {wait.format(1)}; echo ${{CANARY_TOKEN:9}}; "
            f"{wait.format(2)}; printf %s ${{CANARY_TOKEN:0:20}}"
        )
        result = await computer.sandbox.arun(command, timeout=30, on_output=show)
        # The beginning of a secret is shown when the command ends without the rest.
        assert result.output == f"one\n{MARK}\n{TOKEN[:20]}"
        # Only a possible beginning of a secret is held back.
        assert live == [b"one\n", f"{MARK}\n".encode(), TOKEN[:20].encode()]

    def test_both_ends_of_truncated_output_are_redacted(self, computer: DockerExecutionBackend) -> None:
        loop = 'for i in {1..20000}; do echo "$i $CANARY_TOKEN"; done'
        live: list[bytes] = []
        result = computer.sandbox.run(loop, on_output=live.append)
        assert result.truncated
        assert_clean(b"".join(live).decode())
        assert result.output.count(MARK) > 500
        assert_clean(result.output)
        assert result.spill_path
        # The file in the sandbox is unchanged, and redacted when it is read.
        assert computer.sandbox.run(f"grep -c $CANARY_TOKEN {result.spill_path}").output == "20000\n"
        page = computer.read(result.spill_path)
        assert page.file_data is not None
        assert_clean(str(page.file_data["content"]))


class TestBlocks:
    async def test_output_of_blocks_is_redacted(self, computer: DockerExecutionBackend) -> None:
        runner = SandboxRunner(lambda: computer.sandbox)
        live: list[bytes] = []
        for language, code in (
            ("python", "import os\nkey = os.environ['CANARY_KEY']\nprint(key)\nkey"),
            ("python", "raise ValueError('bad key ' + key)"),
            ("python", "open('/nowhere/' + os.environ['CANARY_TOKEN'])"),
            ("bash", 'echo "$CANARY_KEY" | base64'),
        ):
            result = await runner.run(language, code, thread_id="t", key="", on_output=live.append)
            assert MARK in result.output
            assert_clean(result.output)
        assert_clean(b"".join(live).decode())


class TestFiles:
    def test_file_content_is_redacted(self, computer: DockerExecutionBackend) -> None:
        computer.execute('mkdir -p /data/t; cd /data/t; printf "a\\nkey=$CANARY_KEY\\nb\\n" > x.env')
        page = computer.read("/data/t/x.env").file_data
        assert page is not None
        assert page["content"] == f"a\nkey={MARK}\nb"
        [match] = computer.grep("key=", "/data/t").matches or []
        assert match["text"] == f"key={MARK}"
        [download] = computer.download_files(["/data/t/x.env"])
        assert download.content == f"a\nkey={MARK}\nb\n".encode()

    def test_file_names_are_redacted(self, computer: DockerExecutionBackend) -> None:
        computer.execute("mkdir -p /data/n; cd /data/n; echo text > $CANARY_TOKEN.txt")
        shown = f"/data/n/{MARK}.txt // [the name holds a known secret: only a command reaches it, as with *]"
        assert [entry["path"] for entry in computer.ls("/data/n").entries or []] == [shown]
        assert [found["path"] for found in computer.glob("*.txt", "/data/n").matches or []] == [shown]
        [match] = computer.grep("text", "/data/n").matches or []
        assert match["path"].endswith(shown)

    def test_binary_file_with_a_secret_is_refused(self, computer: DockerExecutionBackend) -> None:
        computer.execute(
            r'cd /data; printf "\0\1\2%s" "$CANARY_TOKEN" > x.bin; head -c 1000 /dev/urandom > y.bin; '
            r'printf "\211PNG\r\n\32\n%s" "$CANARY_TOKEN" > x.png'
        )
        refused, whole = computer.download_files(["/data/x.bin", "/data/y.bin"])
        assert refused.content is None
        assert "known secret" in str(refused.error)
        assert whole.content is not None
        assert len(whole.content) == 1000
        assert "known secret" in str(computer.read("/data/x.png").error)
        with pytest.raises(FileFailed) as error:
            computer.sandbox.file("read", path="/data/x.bin")
        assert error.value.code == "secret"

    async def test_large_file_is_redacted(self, computer: DockerExecutionBackend) -> None:
        lines = "seq 1 20000; echo $CANARY_TOKEN; seq 1 400000; echo end $CANARY_TOKEN"
        computer.execute(f"({lines}) > /data/large.txt")
        [download] = await computer.adownload_files(["/data/large.txt"])
        assert download.content is not None
        parts = [*map(str, range(1, 20_001)), MARK, *map(str, range(1, 400_001)), f"end {MARK}", ""]
        assert download.content.decode() == "\n".join(parts)


class TestErrors:
    def test_error_of_the_engine_is_redacted(self, tmp_path: Path) -> None:
        """The Engine repeats the wrong name of a runtime in its error."""
        image = "code-execution-agent"
        sandbox = DockerSandbox(tmp_path, image=image, name="redact", runtime=TOKEN, redact=KNOWN)
        with sandbox, pytest.raises(Exception, match=r"\[REDACTED\]") as error:
            sandbox.run("true")
        assert_clean(f"{error.value} {getattr(error.value, 'hint', '')} {error.value.__cause__}")

    def test_error_of_a_failed_deletion_is_redacted(self, computer: DockerExecutionBackend) -> None:
        above = f"/workspace/data/{'d' * 240}"
        before = f"not everything was deleted: rm: cannot remove '{above}//"
        for kept in (4, 5, 79):
            folder = f"{above}/{'d' * (500 - kept - len(before))}"
            computer.execute(f"mkdir -p {folder}; touch {folder}/$CANARY_TOKEN; chmod 555 {folder}")
            error = str(computer.delete(folder).error)
            computer.execute(f"chmod 755 {folder}; rm -r {above}")
            assert error.endswith(f"d/{MARK}")

    def test_error_of_a_dead_sandbox_is_redacted(self, tmp_path: Path) -> None:
        """The error and the held back output of a sandbox that died are redacted."""
        live: list[bytes] = []
        known = SecretFilter({"K": "first process exited with 137"})
        sandbox = DockerSandbox(tmp_path, image="code-execution-agent", name="redact", redact=known)
        with sandbox:

            def kill(data: bytes) -> None:
                live.append(data)
                client = shared_client()
                client.api.kill(sandbox.container_name)

            with pytest.raises(SandboxDied) as error:
                sandbox.run("printf 'x first pro'; sleep 20", on_output=kill)
        assert "exited" not in str(error.value)
        # The cut beginning counts as the secret.
        assert b"".join(live) == f"x {MARK}".encode()


async def test_the_search_for_unknown_secrets_does_not_run_on_the_event_loop(
    computer: DockerExecutionBackend,
) -> None:
    await computer.aexecute("echo a command")
    assert searched[-1] == ("a command\n", False)
