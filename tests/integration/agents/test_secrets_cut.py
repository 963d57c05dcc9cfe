"""A cut text shows at most three bytes of a secret at the cut."""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from libs.sandbox.docker.container import DockerSandbox
from libs.sandbox.host.channel_sandbox import ChannelSandbox
from libs.sandbox.host.local_sandbox import LocalSandbox
from tests.support.canary_texts import CANARY, KNOWN, MARK, TOKEN, assert_clean
from tests.support.sandboxes import LIMIT

WRITTEN = {
    "plain": TOKEN,
    "base64": base64.b64encode(TOKEN.encode()).decode()[: len(TOKEN) * 8 // 6],
    "url": quote(CANARY, safe=""),
}


@pytest.fixture(
    scope="module",
    params=["local", pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.thorough])],
)
def sandbox(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ChannelSandbox]:
    root = tmp_path_factory.mktemp("cut")
    image = "code-execution-agent"
    local = request.param == "local"
    made = (
        LocalSandbox(root, redact=KNOWN)
        if local
        else DockerSandbox(root, image=image, name="cut", redact=KNOWN)
    )
    with made:
        yield made


def path_in(sandbox: ChannelSandbox, name: str) -> str:
    return f"{sandbox.root if isinstance(sandbox, LocalSandbox) else '/workspace'}/{name}"


def at_a_cut(rest: str) -> str:
    """Return how the beginning of a secret at a cut is shown."""
    return rest if len(rest) < 4 else MARK


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_secret_at_the_cut_of_a_grep_line(sandbox: ChannelSandbox, written: str) -> None:
    heads = ["needle " + "." * (4_000 - len("needle ") - kept) for kept in range(len(written) + 1)]
    path = path_in(sandbox, "lines.txt")
    sandbox.write_file(path, "".join(f"{head}{written} tail\n" for head in heads).encode())
    answer, _ = sandbox.file("grep", path=path, text="needle", pattern=None, most=None)
    for kept, (head, match) in enumerate(zip(heads, answer["matches"], strict=True)):
        assert match["text"] == head + at_a_cut(written[:kept])


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_secret_at_the_cut_of_a_page(sandbox: ChannelSandbox, written: str) -> None:
    path = path_in(sandbox, "page.txt")
    for kept in (0, 3, 4, 30, len(written) - 5, len(written) - 1):
        head = "a line\n" + "." * (500 * 1024 - len("a line\n") - kept)
        sandbox.write_file(path, f"{head}{written} tail\nlast".encode())
        page, _ = sandbox.file("page", path=path, offset=0, limit=2_000, text=True)
        assert page["cut"]
        assert page["content"] == head + at_a_cut(written[:kept])


@pytest.mark.parametrize(
    "lines",
    [textwrap.wrap(TOKEN, 20), textwrap.wrap(TOKEN.encode().hex(), 60)],
    ids=["plain", "hexadecimal"],
)
def test_page_that_begins_or_ends_within_a_wrapped_secret(sandbox: ChannelSandbox, lines: list[str]) -> None:
    path = path_in(sandbox, "wrapped.txt")
    sandbox.write_file(path, "\n".join(["before", *lines, "after", ""]).encode())
    shown = ["before", *[MARK] * len(lines), "after"]
    for offset in range(len(shown)):
        for limit in range(1, len(shown) + 1):
            page, _ = sandbox.file("page", path=path, offset=offset, limit=limit, text=True)
            assert page["content"] == "\n".join(shown[offset : offset + limit])


@pytest.mark.thorough
def test_output_of_a_killed_collector(sandbox: ChannelSandbox) -> None:
    """The collector kept the first bytes and was killed before the report of the rest."""
    for kept in (4, 60):
        head = 2 * sandbox.limits.output_chars - kept
        live: list[bytes] = []
        command = f"head -c {head} /dev/zero | tr '\\0' .; echo {TOKEN} and more"
        result = sandbox.run(f"{command}; sleep 2; kill -9 $PPID; sleep 20", on_output=live.append)
        assert "the process that ran it was killed" in result.output
        assert f".{MARK}\n[" in result.output
        assert_clean(result.output + b"".join(live).decode())


@pytest.mark.parametrize("end", ["timeout", "killed"])
def test_output_of_a_command_that_is_ended(sandbox: ChannelSandbox, end: str) -> None:
    live: list[bytes] = []
    then = "sleep 20" if end == "timeout" else "sleep 2; kill -9 $PPID; sleep 20"
    seconds = 1 if end == "timeout" else 30
    result = sandbox.run(f"printf %s 'x {TOKEN[:60]}'; {then}", timeout=seconds, on_output=live.append)
    assert result.timed_out == (end == "timeout")
    assert result.output.startswith(f"x {MARK}\n[")
    assert b"".join(live).decode() == f"x {MARK}"


def test_output_of_a_command_that_goes_on_in_the_background(sandbox: ChannelSandbox) -> None:
    live: list[bytes] = []
    later = f"(sleep 1; echo {TOKEN[60:]})"
    result = sandbox.run(f"printf %s 'x {TOKEN[:60]}'; {later} &", on_output=live.append)
    assert result.output == b"".join(live).decode() == f"x {MARK}"


@pytest.mark.parametrize("length", [3, 20])
def test_live_output_beyond_the_kept_bytes(sandbox: ChannelSandbox, length: int) -> None:
    live: list[bytes] = []
    size = 2 * sandbox.limits.output_chars + 1000
    pieces = " ".join(textwrap.wrap(TOKEN, length))
    loop = f"for piece in {pieces}; do sleep 0.02; printf %s $piece; done"
    result = sandbox.run(f"head -c {size} /dev/zero | tr '\\0' .; {loop}", on_output=live.append)
    assert result.output.endswith(f".{MARK}")
    shown = b"".join(live).decode()
    assert set(shown.replace(MARK, "")) == {"."}


def test_output_that_is_short_enough_without_its_secrets_is_whole(sandbox: ChannelSandbox) -> None:
    lines = [f"{number:04d} {TOKEN}" for number in range(1 + LIMIT // (5 + len(TOKEN)))]
    sandbox.write_file(path_in(sandbox, "tokens.txt"), "\n".join(lines).encode())
    done = sandbox.run("cat tokens.txt")
    assert done.output.split("\n") == [line.replace(TOKEN, MARK) for line in lines]
    assert (done.truncated, done.spill_path) == (False, None)
    sandbox.write_file(path_in(sandbox, "more.txt"), ("." * LIMIT + TOKEN).encode())
    done = sandbox.run("cat more.txt")
    assert done.truncated
    assert f"[… {len(MARK)} characters left out; the whole output is in {done.spill_path} …]" in done.output
