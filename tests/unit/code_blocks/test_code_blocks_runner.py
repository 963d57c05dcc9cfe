"""SandboxRunner: bash blocks keep the working directory, and nothing else changes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.code_blocks import SandboxRunner
from libs.sandbox import DockerUnavailable, RunResult, SandboxLimits
from libs.sandbox.host.local_sandbox import LocalSandbox

NOTE = "[this block runs in /workspace: the earlier blocks' directory is unknown or cannot be entered]\n"


class Bench:
    """A runner and the folder where its blocks begin."""

    def __init__(self, sandbox: LocalSandbox, scratch: Path) -> None:
        self.home = sandbox.root
        self.sandbox = sandbox
        self.scratch = scratch
        self._runner = SandboxRunner(lambda: sandbox, scratch=str(scratch))

    async def bash(self, code: str, thread: str = "1", *, continues: bool = False) -> RunResult:
        return await self._runner.run("bash", code, thread_id=thread, key="m/0", continues=continues)

    async def python(self, code: str, thread: str = "1") -> RunResult:
        return await self._runner.run("python", code, thread_id=thread, key="m/0")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with LocalSandbox(tmp_path / "home") as sandbox:
        yield Bench(sandbox, tmp_path / "it's scratch")


async def test_thread_keeps_its_working_directory(bench: Bench) -> None:
    assert (await bench.bash("mkdir 'a b'; cd 'a b'; pwd")).output == f"{bench.home}/a b\n"
    assert (await bench.bash("pwd")).output == f"{bench.home}/a b\n"
    assert (await bench.bash("pwd", thread="another/../one")).output == f"{bench.home}\n"
    await bench.bash("cd ..", thread="1")
    assert (await bench.bash("pwd")).output == f"{bench.home}\n"


@pytest.mark.parametrize(
    "code",
    [
        "cd sub",
        "cd sub; exit 3",
        "set -euxo pipefail; set -C; cd sub; false; echo never",
        "set -x; pwd() { echo mine; }; PWD=/; builtin cd sub",
        "set -xv\ncd sub\nexit",
        "cd sub\nif",
        "cd sub; PATH=/nowhere",
        "trap 'echo line' DEBUG; cd sub",
    ],
)
async def test_directory_is_kept_and_output_unchanged_however_a_block_ends(bench: Bench, code: str) -> None:
    await bench.bash("mkdir sub")
    plain = await bench._runner._sandbox().arun(code)
    kept = await bench.bash(code)
    assert (kept.output, kept.exit_code) == (plain.output, plain.exit_code)
    expected = bench.home / "sub"
    assert (await bench.bash("pwd -P")).output == f"{expected}\n"


@pytest.mark.parametrize("code", ["kill -9 $$", "exec true", "trap : EXIT", "sleep 60"])
async def test_directory_of_a_block_that_did_not_tell_it_is_said_to_be_unknown(
    bench: Bench, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    untold = (
        "[this block runs where the block before began: that block ended without telling its last directory]"
    )
    await bench.bash("mkdir -p one two; cd one")
    monkeypatch.setattr(bench.sandbox, "limits", SandboxLimits(timeout=1))
    await bench.bash(f"cd ../two; {code}")
    assert (await bench.bash("pwd")).output == f"{untold}\n{bench.home}/one\n"
    assert (await bench.bash("pwd")).output == f"{bench.home}/one\n"


@pytest.mark.parametrize("name", ["a\n", "\n\n", " a ", "a\\b", "-", "/"])
async def test_directory_of_any_name_is_kept(bench: Bench, name: str) -> None:
    await bench.bash(
        f"mkdir -p -- {shlex.quote(name)}; cd -- ./{shlex.quote(name)}" if name != "/" else "cd /"
    )
    assert (await bench.bash("pwd")).output == (f"{bench.home}/{name}\n" if name != "/" else "/\n")
    assert (await bench.bash("echo ${REPLY-none}")).output == "none\n"


async def test_directory_that_could_not_be_stored_falls_back_with_a_note(bench: Bench) -> None:
    await bench.bash("mkdir sub; cd sub")
    for kept in bench.scratch.glob("*/directory"):
        kept.write_text("")
    assert (await bench.bash("pwd")).output == f"{NOTE}{bench.home}\n"
    limited = await bench.bash("cd sub; ulimit -f 0; echo said")
    assert (limited.output, limited.exit_code) == ("said\n", 0)
    assert (await bench.bash("pwd")).output == f"{NOTE}{bench.home}\n"


async def test_deleted_directory_falls_back_to_the_workspace_with_a_note(bench: Bench) -> None:
    await bench.bash("mkdir gone; cd gone; rmdir ../gone")
    assert (await bench.bash("pwd")).output == f"{NOTE}{bench.home}\n"
    assert (await bench.bash("pwd")).output == f"{bench.home}\n"


async def test_block_after_a_lost_sandbox_begins_with_a_note(bench: Bench) -> None:
    """The scratch folder of a new sandbox is empty."""
    assert (await bench.bash("mkdir sub; cd sub; pwd", continues=True)).output.startswith(NOTE)
    assert (await bench.bash("pwd", continues=True)).output == f"{bench.home}/sub\n"


async def test_errors_have_the_line_numbers_of_the_block(bench: Bench) -> None:
    assert "line 2: nosuch" in (await bench.bash("true\nnosuch")).output
    assert "line 2, in <module>" in (await bench.python("x = 1\n1 / 0")).output


async def test_syntax_error_shows_the_line_of_the_block_only(bench: Bench) -> None:
    for code in ("for i in 1 2 do echo $i; done", "ls; )\necho"):
        output = (await bench.bash(code)).output
        assert output.endswith(f": line 1: `{code.partition(chr(10))[0]}'\n"), output
        assert "trap" not in output
        assert (await bench.bash("pwd", continues=True)).output == f"{bench.home}\n"


async def test_python_exit_codes_and_output(bench: Bench) -> None:
    printed = await bench.python("x = 'ä'; print(x)")
    assert (printed.output, printed.exit_code) == ("ä\n", 0)
    assert (await bench.python("x * 2")).output == "'ää'\n", "variables stay, a last expression is shown"
    assert (await bench.python("x", thread="2")).exit_code == 1, "another thread has its own"
    assert (await bench.python("print(input())")).exit_code == 1


async def test_half_character_is_counted_in_the_block(bench: Bench) -> None:
    done = await bench.bash("echo '\ud800'")
    assert "character 7 is half of a surrogate pair" in done.output


@pytest.mark.parametrize("code", ["echo '\0'", "echo '\ud800'"])
async def test_invalid_text_is_refused(bench: Bench, code: str) -> None:
    for done in (
        await bench.bash(code),
        await bench._runner.run("python", "x = '\ud800'", thread_id="1", key="k"),
    ):
        assert done.exit_code == 125
        assert "cannot be run" in done.output


class Unreachable(LocalSandbox):
    """A sandbox that cannot start."""

    def _connect(self) -> None:  # type: ignore[override]
        raise DockerUnavailable("No Engine answers.", hint="Start it with `code-agent setup`.")


async def test_failed_sandbox_gives_its_hint(tmp_path: Path) -> None:
    runner = SandboxRunner(lambda: Unreachable(tmp_path))
    done = await runner.run("bash", "ls", thread_id="1", key="m/0")
    assert (done.output, done.exit_code) == ("No Engine answers. Start it with `code-agent setup`.", 125)
