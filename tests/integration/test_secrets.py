"""A secret that is let in comes back as `[REDACTED]`, whatever way it takes out of the sandbox (G6)."""

from __future__ import annotations

import asyncio
import base64
import resource
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from agent import code_graph, graph
from agent.config import build_backend, load_settings
from libs.backends.docker import DockerExecutionBackend
from libs.code_blocks import SandboxRunner
from libs.gateway.redaction import SecretFilter
from libs.models.scripted import Conversation, Reply, ScriptedChatModel, ToolUse
from libs.sandbox import FileFailed, SandboxDied
from libs.sandbox.base import ChannelSandbox
from libs.sandbox.container import DockerSandbox
from libs.sandbox.engine import shared_client
from libs.sandbox.local import LocalSandbox

pytestmark = pytest.mark.docker

CANARY = "cn-7Hq/x2+Kd9 vB4&nL8w='Tz5"
TOKEN = "cnry-" + "Zx8Kq3Vn5Rt7Yw2" * 5
"""So long that `base64` wraps it."""
MARK = "[REDACTED]"


@pytest.fixture(scope="module")
def computer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerExecutionBackend]:
    root = tmp_path_factory.mktemp("redacted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANARY_KEY", CANARY)
        patch.setenv("CANARY_TOKEN", TOKEN)
        known = SecretFilter({"CANARY_KEY": CANARY, "CANARY_TOKEN": TOKEN})
        with DockerExecutionBackend(root, env_allow=["CANARY_*"], name="redact", redact=known) as made:
            yield made


def python(code: str) -> str:
    head = "import os, base64, json, re, sys\nfrom urllib.parse import quote, quote_plus"
    return f"python3 - <<'E'\n{head}\nk = os.environ['CANARY_KEY']\n{code}\nE"


class TestCommands:
    @pytest.mark.parametrize(
        "command",
        [
            'echo "$CANARY_KEY"',
            "echo $CANARY_TOKEN",
            'echo "$CANARY_KEY" >&2; false',
            "env; export -p; declare -p CANARY_TOKEN; set",
            'set -x; : "$CANARY_KEY"',
            "echo $CANARY_TOKEN | base64",
            'printf "user:$CANARY_KEY" | base64 -w 0',
            'printf "us:$CANARY_KEY" | base64 -w 20',
            "printf %s $CANARY_TOKEN | xxd -p || printf %s $CANARY_TOKEN | od -An -tx1 | tr -d ' '",
            "echo $CANARY_TOKEN | fold -w 20",
            python("print(base64.urlsafe_b64encode(b'?' + k.encode()).decode().rstrip('='))"),
            python("print(quote(k), quote(k, safe=''), quote_plus(k))"),
            python("print(re.sub('%..', lambda found: found[0].lower(), quote_plus(k)))"),
            python("print(json.dumps({'key': k}), repr(k), k.encode())"),
            python("sys.exit(k)"),
            "ls /nowhere/$CANARY_TOKEN",
            "cat /proc/self/environ",
        ],
    )
    def test_output(self, computer: DockerExecutionBackend, command: str) -> None:
        live: list[bytes] = []
        result = computer.sandbox.run(command, on_output=live.append)
        assert MARK in result.output
        assert_clean(result.output)
        assert b"".join(live).decode() == result.output

    def test_standard_error_apart(self, computer: DockerExecutionBackend) -> None:
        result = computer.sandbox.run('echo "$CANARY_KEY"; echo "e $CANARY_KEY" >&2', merge_stderr=False)
        assert (result.output, result.stderr) == (f"{MARK}\n", f"e {MARK}\n")

    async def test_in_pieces_with_pauses(self, computer: DockerExecutionBackend) -> None:
        live: list[tuple[float, bytes]] = []
        command = (
            "echo one; printf %s ${CANARY_TOKEN:0:9}; sleep 0.6; echo ${CANARY_TOKEN:9}; sleep 0.6; echo b"
        )
        result = await computer.sandbox.arun(
            command, on_output=lambda data: live.append((time.monotonic(), data))
        )
        assert result.output == f"one\n{MARK}\nb\n"
        assert b"".join(data for _, data in live).decode() == result.output
        # Only what may be the beginning of a secret waits; the rest comes as it comes.
        assert live[0][1] == b"one\n"
        assert live[-1][0] - live[0][0] > 1

    def test_what_begins_like_a_secret_is_shown_in_the_end(self, computer: DockerExecutionBackend) -> None:
        live: list[bytes] = []
        computer.sandbox.run("printf %s ${CANARY_TOKEN:0:20}", on_output=live.append)
        assert b"".join(live) == TOKEN[:20].encode()

    def test_an_error_that_the_model_reads(self, computer: DockerExecutionBackend) -> None:
        answer = computer.execute('exec 2>&1; echo "cannot log in with $CANARY_KEY"; exit 7')
        assert (answer.output, answer.exit_code) == (f"cannot log in with {MARK}\n", 7)

    def test_both_ends_of_what_is_cut(self, computer: DockerExecutionBackend) -> None:
        loop = 'for i in {1..20000}; do echo "$i $CANARY_TOKEN"; done'
        live: list[bytes] = []
        result = computer.sandbox.run(loop, on_output=live.append)
        assert result.truncated
        assert_clean(b"".join(live).decode())
        assert result.output.count(MARK) > 500
        assert_clean(result.output)
        assert result.spill_path
        # What lies inside stays as it is, and is redacted when it is read.
        assert computer.sandbox.run(f"grep -c $CANARY_TOKEN {result.spill_path}").output == "20000\n"
        page = computer.read(result.spill_path)
        assert page.file_data is not None
        assert_clean(str(page.file_data["content"]))


class TestBlocks:
    async def test_python_and_bash(self, computer: DockerExecutionBackend) -> None:
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
    def test_text(self, computer: DockerExecutionBackend) -> None:
        computer.execute('mkdir -p /data/t; cd /data/t; printf "a\\nkey=$CANARY_KEY\\nb\\n" > x.env')
        page = computer.read("/data/t/x.env").file_data
        assert page is not None
        assert page["content"] == f"a\nkey={MARK}\nb"
        [match] = computer.grep("key=", "/data/t").matches or []
        assert match["text"] == f"key={MARK}"
        [download] = computer.download_files(["/data/t/x.env"])
        assert download.content == f"a\nkey={MARK}\nb\n".encode()

    def test_names(self, computer: DockerExecutionBackend) -> None:
        computer.execute("mkdir -p /data/n; cd /data/n; echo text > $CANARY_TOKEN.txt")
        assert [entry["path"] for entry in computer.ls("/data/n").entries or []] == [f"/data/n/{MARK}.txt"]
        assert [found["path"] for found in computer.glob("*.txt", "/data/n").matches or []] == [
            f"/data/n/{MARK}.txt"
        ]
        [match] = computer.grep("text", "/data/n").matches or []
        assert match["path"].endswith(f"{MARK}.txt")

    def test_what_is_no_text_is_refused_not_broken(self, computer: DockerExecutionBackend) -> None:
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

    async def test_a_large_text(self, computer: DockerExecutionBackend) -> None:
        lines = "seq 1 20000; echo $CANARY_TOKEN; seq 1 400000; echo end $CANARY_TOKEN"
        computer.execute(f"({lines}) > /data/large.txt")
        [download] = await computer.adownload_files(["/data/large.txt"])
        assert download.content is not None
        told = download.content.decode()
        assert told.endswith(f"400000\nend {MARK}\n")
        assert told == (
            "".join(f"{n}\n" for n in range(1, 20001))
            + f"{MARK}\n"
            + "".join(f"{n}\n" for n in range(1, 400001))
            + f"end {MARK}\n"
        )

    def test_what_goes_in_stays_as_it_is(self, computer: DockerExecutionBackend) -> None:
        content = f"key={CANARY}\n".encode()
        computer.upload_files([("/data/up.env", content)])
        assert computer.execute('grep -cF "key=$CANARY_KEY" /data/up.env').output == "1\n"
        assert computer.edit("/data/up.env", CANARY, "new").error is None


WRITTEN = {
    "plain": TOKEN,
    "base64": base64.b64encode(TOKEN.encode()).decode()[: len(TOKEN) * 8 // 6],
    "url": quote(CANARY, safe=""),
}


@pytest.fixture(params=["local", "docker"])
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ChannelSandbox]:
    if request.param == "docker":
        yield request.getfixturevalue("computer").sandbox
    else:
        known = SecretFilter({"CANARY_KEY": CANARY, "CANARY_TOKEN": TOKEN})
        with LocalSandbox(tmp_path / "w", redact=known) as made:
            yield made


class TestWhatIsCutInside:
    """Of what is cut before it comes out, no more than three bytes of a secret are left at the cut."""

    @pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
    def test_a_long_line_that_grep_finds(self, sandbox: ChannelSandbox, written: str) -> None:
        heads = ["needle " + "." * (4_000 - len("needle ") - kept) for kept in range(len(written) + 1)]
        path = path_in(sandbox, "lines.txt")
        sandbox.write_file(path, "".join(f"{head}{written} tail\n" for head in heads).encode())
        answer, _ = sandbox.file("grep", path=path, text="needle", pattern=None, most=None)
        for kept, (head, match) in enumerate(zip(heads, answer["matches"], strict=True)):
            assert match["text"] == head + at_a_cut(written[:kept])

    @pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
    @pytest.mark.parametrize("kept", [0, 1, 3, 4, 5, 17, 30, -5, -1])
    def test_a_page_that_is_full(self, sandbox: ChannelSandbox, written: str, kept: int) -> None:
        kept %= len(written)
        head = "a line\n" + "." * (500 * 1024 - len("a line\n") - kept)
        path = path_in(sandbox, "page.txt")
        sandbox.write_file(path, f"{head}{written} tail\nlast".encode())
        page, _ = sandbox.file("page", path=path, offset=0, limit=2_000, text=True)
        assert page["cut"]
        assert page["content"] == head + at_a_cut(written[:kept])

    @pytest.mark.parametrize(
        "lines",
        [textwrap.wrap(TOKEN, 20), textwrap.wrap(TOKEN.encode().hex(), 60)],
        ids=["plain", "hexadecimal"],
    )
    def test_a_page_that_begins_or_ends_within_a_wrapped_one(
        self, sandbox: ChannelSandbox, lines: list[str]
    ) -> None:
        path = path_in(sandbox, "wrapped.txt")
        sandbox.write_file(path, "\n".join(["before", *lines, "after", ""]).encode())
        shown = ["before", *[MARK] * len(lines), "after"]
        for offset in range(len(shown)):
            for limit in range(1, len(shown) + 1):
                page, _ = sandbox.file("page", path=path, offset=offset, limit=limit, text=True)
                assert page["content"] == "\n".join(dict.fromkeys(shown[offset : offset + limit]))

    def test_a_page_that_is_not_cut_stays_as_it_is(self, sandbox: ChannelSandbox) -> None:
        path = path_in(sandbox, "whole.txt")
        text = f"{TOKEN[9:]} of one\nneedle {TOKEN[:70]}"
        sandbox.write_file(path, text.encode())
        page, _ = sandbox.file("page", path=path, offset=0, limit=2_000, text=True)
        assert page["content"] == text
        answer, _ = sandbox.file("grep", path=path, text="needle", pattern=None, most=None)
        assert answer["matches"] == [{"path": path, "line": 2, "text": f"needle {TOKEN[:70]}"}]

    @pytest.mark.parametrize("kept", [4, 40, 76])
    def test_a_line_that_grep_reads_in_pieces(self, sandbox: ChannelSandbox, kept: int) -> None:
        end = 17 * 1024 * 1024  # of the piece in which an endless line is given up
        head = "needle "
        path = path_in(sandbox, "endless.txt")
        filler = "." * (end - len(f"\n{head}") - kept)
        sandbox.write_file(path, f"{filler}\n{head}{TOKEN} needle\n".encode())
        answer, _ = sandbox.file("grep", path=path, text="needle", pattern=None, most=None)
        assert [match["text"] for match in answer["matches"]] == [head + MARK, f"{MARK} needle"]

    @pytest.mark.parametrize("kept", [4, 5, 41, 79])
    def test_the_reason_why_a_folder_stays(self, computer: DockerExecutionBackend, kept: int) -> None:
        above = f"/workspace/data/{'d' * 240}"
        before = f"rm: cannot remove '{above}//"
        folder = f"{above}/{'d' * (500 - kept - len(before))}"
        computer.execute(f"mkdir -p {folder}; touch {folder}/$CANARY_TOKEN; chmod 555 {folder}")
        error = str(computer.delete(folder).error)
        computer.execute(f"chmod 755 {folder}; rm -r {above}")
        assert error.endswith(f"d/{MARK}")

    def test_output_whose_collector_was_killed(self, sandbox: ChannelSandbox) -> None:
        """It keeps the first bytes, and is gone before it can say that there were more."""
        for kept in (4, 60):
            head = 2 * sandbox.limits.output_chars - kept
            live: list[bytes] = []
            command = f"head -c {head} /dev/zero | tr '\\0' .; echo {TOKEN} and more"
            result = sandbox.run(f"{command}; sleep 0.3; kill -9 $PPID; sleep 5", on_output=live.append)
            assert "the process that ran it was killed" in result.output
            assert f".{MARK}\n[" in result.output
            assert_clean(result.output + b"".join(live).decode())

    @pytest.mark.parametrize("end", ["timeout", "killed"])
    def test_output_of_what_is_ended_while_it_prints(self, sandbox: ChannelSandbox, end: str) -> None:
        live: list[bytes] = []
        then = "sleep 20" if end == "timeout" else "sleep 0.3; kill -9 $PPID; sleep 5"
        result = sandbox.run(f"printf %s 'x {TOKEN[:60]}'; {then}", timeout=1, on_output=live.append)
        assert result.timed_out == (end == "timeout")
        assert result.output.startswith(f"x {MARK}\n[")
        assert b"".join(live).decode() == f"x {MARK}"

    def test_live_output_in_small_pieces_beyond_what_is_kept(self, sandbox: ChannelSandbox) -> None:
        live: list[bytes] = []
        size = 2 * sandbox.limits.output_chars + 1000
        pieces = " ".join(textwrap.wrap(TOKEN, 20))
        loop = f"for piece in {pieces}; do sleep 0.1; printf %s $piece; done"
        result = sandbox.run(f"head -c {size} /dev/zero | tr '\\0' .; {loop}", on_output=live.append)
        assert result.output.endswith(f".{MARK}")
        shown = b"".join(live).decode()
        assert set(shown.replace(MARK, "")) == {"."}


def path_in(sandbox: ChannelSandbox, name: str) -> str:
    return f"{sandbox.root if isinstance(sandbox, LocalSandbox) else '/workspace'}/{name}"


def at_a_cut(rest: str) -> str:
    """What is shown of the beginning of a secret."""
    return rest if len(rest) < 4 else MARK


class TestErrors:
    def test_of_the_sandbox(self, tmp_path: Path) -> None:
        """The Engine repeats what it cannot make sense of."""
        sandbox = DockerSandbox(
            tmp_path,
            image="code-execution-agent",
            name="redact",
            runtime=TOKEN,
            redact=SecretFilter({"K": TOKEN}),
        )
        with sandbox, pytest.raises(Exception, match=r"\[REDACTED\]") as error:
            sandbox.run("true")
        assert_clean(f"{error.value} {getattr(error.value, 'hint', '')} {error.value.__cause__}")

    def test_of_one_that_died(self, tmp_path: Path) -> None:
        """What is known of its end, and what was held back of its output."""
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
        # It may have gone on.
        assert b"".join(live) == f"x {MARK}".encode()


SETTINGS: dict[str, Any] = {"approvals": "auto", "sandbox_env_allow": "CANARY_*"}
LEAK = (
    'echo "$CANARY_KEY"; echo $CANARY_TOKEN | base64; touch /results/$CANARY_TOKEN; '
    "cat /nowhere/$CANARY_TOKEN; true"
)


@pytest.mark.parametrize("agent", [graph, code_graph], ids=["deep", "code"])
async def test_no_sink_of_a_run_holds_it(agent: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Result, live events, messages and checkpoints of a run whose command prints what it was let see."""
    monkeypatch.setenv("CANARY_KEY", CANARY)
    monkeypatch.setenv("CANARY_TOKEN", TOKEN)
    settings = load_settings(None, workspace_dir=tmp_path / "w", **SETTINGS)
    backend = build_backend(settings)
    call = (
        Reply(text=f"```bash\n{LEAK}\n```")
        if agent is code_graph
        else Reply(
            tool_calls=(
                ToolUse(name="execute", args={"command": LEAK}),
                ToolUse(name="ls", args={"path": "/results"}),
            )
        )
    )
    model = ScriptedChatModel(
        conversations=(Conversation(replies=(call, Reply(text="Done."), Reply(text="Done."))),)
    )
    database = tmp_path / "threads.sqlite"
    events: list[Any] = []
    async with AsyncSqliteSaver.from_conn_string(str(database)) as saver:
        built = agent.build_graph(model, settings=settings, backend=backend, checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "t"}}
        with backend.default:  # type: ignore[attr-defined]
            async for event in built.astream(
                {"messages": [HumanMessage("go")]}, config, stream_mode=["custom", "updates", "messages"]
            ):
                events.append(event)
        state = await built.aget_state(config)
    told = repr([message.text for message in state.values["messages"]])
    assert told.count(MARK) >= 3
    live = "".join(data["text"] for mode, data in events if mode == "custom" and data.get("type") == "output")
    assert live.count(MARK) >= 3
    assert_clean(repr(events) + live + told)
    assert_clean(database.read_bytes().decode("latin-1"))


class TestFloods:
    def test_host_memory(self, tmp_path: Path) -> None:
        """S5 with a filter, in a process of its own: 50 MB that hold a secret again and again."""
        script = textwrap.dedent(f"""
            import resource
            from pathlib import Path
            from libs.gateway.redaction import SecretFilter
            from libs.sandbox.container import DockerSandbox

            def peak():
                return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

            known = SecretFilter({{"K": {TOKEN!r}}})
            root, image = Path({str(tmp_path)!r}), "code-execution-agent"
            with DockerSandbox(root, image=image, name="redact", redact=known) as sandbox:
                for _ in range(20):
                    sandbox.run("echo warm {TOKEN}", on_output=len)
                idle = peak()
                result = sandbox.run("yes '{TOKEN} some more text' | head -c 50000000", on_output=len)
                assert result.truncated and {TOKEN!r} not in result.output
                print(peak() - idle)
        """)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) <= 8 * 1024

    def test_a_download_is_handed_out_as_it_came(self, computer: DockerExecutionBackend) -> None:
        computer.execute("head -c 20000000 /dev/urandom > /data/large.bin; sha256sum /data/large.bin")
        content = computer.sandbox.read_file("/data/large.bin")
        assert len(content) == 20_000_000
        known = SecretFilter({"A": CANARY, "B": TOKEN})
        used = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        assert known(content) is content
        assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - used < 5


def assert_clean(text: str) -> None:
    """That no canary is in it, however it may be written. Not with the filter that is tested."""
    flat = "".join(text.split())
    for secret in (CANARY, TOKEN):
        raw = secret.encode()
        bare = "".join(secret.split())
        encoded = [base64.b64encode(b"x" * before + raw).decode()[4:-4] for before in range(3)]
        for needle in (bare, *encoded, *(each.translate({43: 45, 47: 95}) for each in encoded), raw.hex()):
            assert needle not in flat
    for part in ("x2+Kd9", "x2%2BKd9", "x2%2bkd9", "Zx8Kq3Vn5Rt7Yw2Zx8"):
        assert part not in text


async def test_the_search_for_unknown_secrets_does_not_run_on_the_event_loop(tmp_path: Path) -> None:
    searched = []

    def suspect(output: str, call_id: str | None) -> None:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        searched.append(output)

    with DockerExecutionBackend(tmp_path, name="suspect", suspect=suspect) as backend:
        await backend.aexecute("echo a command")
    assert searched == ["a command\n"]
