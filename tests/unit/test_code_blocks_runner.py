"""Blocks in a sandbox: the working directory goes from one to the next, and nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.code_blocks import BlockResult, SandboxRunner
from libs.sandbox import DockerUnavailable
from libs.sandbox.local import LocalSandbox


class Bench:
    """A runner and the folder where its blocks begin."""

    def __init__(self, sandbox: LocalSandbox, scratch: Path) -> None:
        self.home = sandbox.root
        self._runner = SandboxRunner(lambda: sandbox, scratch=str(scratch))

    async def bash(self, code: str, thread: str = "1") -> BlockResult:
        return await self._runner.run("bash", code, thread_id=thread, key="m/0")

    async def python(self, code: str, thread: str = "1") -> BlockResult:
        return await self._runner.run("python", code, thread_id=thread, key="m/0")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with LocalSandbox(tmp_path / "home") as sandbox:
        yield Bench(sandbox, tmp_path / "it's scratch")


async def test_the_directory_is_kept_for_the_thread(bench: Bench) -> None:
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
        "cd sub; false",
        "set -euxo pipefail; set -C; cd sub; false; echo never",
        "set -x; pwd() { echo mine; }; PWD=/; builtin cd sub",
        "cd sub && (cd ..; exit 4)",
        "cd sub\nif",
        "cd sub; unset x; set -u; echo $x",
    ],
)
async def test_it_is_kept_however_a_block_ends_and_changes_nothing(bench: Bench, code: str) -> None:
    await bench.bash("mkdir sub")
    plain = await bench._runner._sandbox().arun(code)
    kept = await bench.bash(code)
    assert (kept.output, kept.exit_code) == (plain.output, plain.exit_code)
    expected = bench.home / "sub"
    assert (await bench.bash("pwd -P")).output == f"{expected}\n"


async def test_a_directory_that_is_gone_is_left(bench: Bench) -> None:
    await bench.bash("mkdir gone; cd gone; rmdir ../gone")
    assert (await bench.bash("pwd")).output == f"{bench.home}\n"


async def test_a_trap_of_its_own_runs(bench: Bench) -> None:
    assert (await bench.bash("trap 'echo bye' EXIT; cd /")).output == "bye\n"


async def test_line_numbers_are_those_of_the_block(bench: Bench) -> None:
    assert "line 2: nosuch" in (await bench.bash("true\nnosuch")).output
    assert "line 2, in <module>" in (await bench.python("x = 1\n1 / 0")).output


async def test_python_exit_codes_and_output(bench: Bench) -> None:
    assert await bench.python("x = 'ä'; print(x)") == BlockResult("ä\n", 0, pytest.approx(0, abs=60))
    assert (await bench.python("x * 2")).output == "'ää'\n", "variables stay, a last expression is shown"
    assert (await bench.python("x", thread="2")).exit_code == 1, "another thread has its own"
    assert (await bench.python("print(input())")).exit_code == 1


@pytest.mark.parametrize("code", ["echo '\0'", "echo '\ud800'"])
async def test_what_is_no_text_is_refused(bench: Bench, code: str) -> None:
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


async def test_a_sandbox_that_fails_says_what_mends_it(tmp_path: Path) -> None:
    runner = SandboxRunner(lambda: Unreachable(tmp_path))
    done = await runner.run("bash", "ls", thread_id="1", key="m/0")
    assert done == BlockResult("No Engine answers. Start it with `code-agent setup`.", 125, 0.0)
