"""Commands attack the shells that wait for the next commands. State, commands and output must not leak."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.docker.container import DockerSandbox
from libs.sandbox.wire.frames import ANSWER, Ending, Fd, Kind, encode
from tests.support.sandboxes import IMAGE, RUNTIME
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker

# Runs the code DO on each waiting shell, again and again, for some seconds or until the file `stop` is there.
TO_SHELLS = """
import os, sys, time
def shells():
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and b"BASH_EXECUTION_STRING" in open(f"/proc/{name}/cmdline", "rb").read():
                if os.path.exists(f"/proc/{name}/fd/9"):
                    yield int(name)
        except OSError:
            pass
def goes_on():
    return time.time() < end and not os.path.exists("/workspace/stop")
end = time.time() + float(sys.argv[1])
time.sleep(0.3)
while goes_on():
    for shell in shells():
        try:
            DO
        except OSError:
            pass
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[DockerExecutionBackend]:
    with DockerExecutionBackend(tmp_path, image=IMAGE, runtime=RUNTIME, name="attack") as backend:
        yield backend


def attack_shells(backend: DockerExecutionBackend, action: str, seconds: float) -> None:
    program = TO_SHELLS.replace("DO", textwrap.indent(action, " " * 12).strip())
    backend.upload_files([("/tmp/shells.py", program.encode())])
    run = f"python3 /tmp/shells.py {seconds} > /dev/null 2>&1; touch /workspace/over"
    backend.execute(f"({run}) & true", timeout=5)


def wait_for_attack_end(backend: DockerExecutionBackend) -> None:
    """Wait for the attack to end: until then a command may get a shell that was just stopped or killed."""
    assert isinstance(backend.sandbox, DockerSandbox)
    eventually((backend.sandbox.root / "over").exists)


def test_command_that_timed_out_unread_never_runs(own: DockerExecutionBackend) -> None:
    """The attack keeps the shell stopped that should read the command."""
    attack_shells(own, "os.kill(shell, 19)", 2.2)
    time.sleep(0.6)
    assert isinstance(own.sandbox, DockerSandbox)
    log = own.sandbox.root / "log"
    log.touch()
    log.chmod(0o666)
    ran: list[str] = []
    for number in range(4):
        code = own.execute(f"echo {number} >> /workspace/log; echo {number}", timeout=0.4).exit_code
        # On a busy machine a command may begin in time and time out before it is reported.
        ran = log.read_text().split()
        assert code != 0 or str(number) in ran
    wait_for_attack_end(own)
    time.sleep(0.5)
    outputs = [own.execute(f"echo after{i}").output for i in range(6)]
    assert outputs == [f"after{i}\n" for i in range(6)]
    assert log.read_text().split() == ran


def test_command_runs_at_most_once_when_its_shell_is_killed(own: DockerExecutionBackend) -> None:
    attack_shells(own, "os.kill(shell, 9)", 60)
    end = time.monotonic() + 2
    count = 0
    answered = {}
    while time.monotonic() < end or count < 25:
        answered[count] = own.execute(f"echo {count} >> /workspace/log; echo {count}", timeout=5)
        count += 1
    assert isinstance(own.sandbox, DockerSandbox)
    (own.sandbox.root / "stop").touch()
    wait_for_attack_end(own)
    logged = [int(line) for line in own.execute("cat /workspace/log").output.split()]
    assert logged == sorted(set(logged))
    for number, answer in answered.items():
        assert answer.output in (f"{number}\n", "") or "ended the process" in answer.output
        if answer.exit_code == 0:
            assert number in logged
    assert own.execute("echo on").output == "on\n"


@pytest.mark.thorough
def test_stolen_descriptor_of_one_shell_gives_no_later_one(own: DockerExecutionBackend) -> None:
    """The attack opens and drains the pipes of the shells that wait now. Later shells have other pipes."""
    hold = "held.append(os.open(f'/proc/{shell}/fd/9', os.O_RDWR))"
    program = TO_SHELLS.replace("DO", hold).replace("end =", "held = []\nend =")
    program = program.replace("while goes_on()", "for _ in range(1)")
    program += "import select\nwhile time.time() < end:\n"
    program += "    for one in select.select(held, [], [], 0.1)[0]:\n        os.read(one, 100)\n"
    own.upload_files([("/tmp/hold.py", program.encode())])
    own.execute("python3 /tmp/hold.py 8 > /dev/null 2>&1 & true", timeout=5)
    time.sleep(0.8)
    answers = [own.execute(f"echo {i}", timeout=0.5) for i in range(14)]
    lost = [answer for answer in answers if answer.exit_code != 0]
    assert len(lost) <= 4  # the shells that waited at that moment
    assert [answer.output for answer in answers[-8:]] == [f"{i}\n" for i in range(6, 14)]


def test_filled_command_pipe_spoils_only_its_own_command(own: DockerExecutionBackend) -> None:
    """A command can stop a waiting shell and fill its pipe. That spoils the command of this shell only."""
    fill = (
        "os.kill(shell, 19); pipe = os.open(f'/proc/{shell}/fd/9', os.O_WRONLY | os.O_NONBLOCK)\n"
        "while True: os.write(pipe, b'x' * 4096)"
    )
    attack_shells(own, fill, 1)
    wait_for_attack_end(own)
    answers = [own.execute(f"echo {i}", timeout=5) for i in range(10)]
    assert all(answer.exit_code != 124 for answer in answers)
    spoilt = [i for i, answer in enumerate(answers) if answer.output != f"{i}\n"]
    assert len(spoilt) <= 4  # the shells that waited at that moment
    assert not {6, 7, 8, 9} & set(spoilt)


ATTEMPTS = [
    "export BASH_ENV=/workspace/evil ENV=/workspace/evil PROMPT_COMMAND='echo evil'",
    "echo 'echo evil' | tee ~/.bashrc ~/.bash_profile ~/.profile ~/.bash_logout /workspace/.bashrc",
    "echo() { builtin echo evil; }; export -f echo; ls() { builtin echo evil; }; export -f ls",
    "shopt -s expand_aliases; alias echo='echo evil' ls='echo evil'; alias > ~/.bash_aliases",
    "trap 'echo evil' EXIT DEBUG ERR RETURN; set -xe; set -o noglob; shopt -s nullglob extdebug",
    "hash -p /bin/false ls; enable -n echo; ulimit -n 9; ulimit -u 5 2>/dev/null; umask 777",
    "for d in /workspace /tmp ~/bin ~/.local/bin; do mkdir -p $d; cp /bin/false $d/ls; done",
    "cd /; rm -rf /tmp/home/.config; export PATH=/nowhere LD_PRELOAD=/workspace/evil.so IFS=e",
    "exec 9< <(while :; do printf 'echo evil\\0'; done); exec 1>&- 2>&-",
    "disown -a; readonly BASH_EXECUTION_STRING=x; enable -f /nowhere x; exec -a bash sleep 0.1",
]


def test_shell_state_does_not_pass_to_the_next_command(backend: DockerExecutionBackend) -> None:
    look = (
        "echo on; (cd /usr; ls); pwd; umask; ulimit -n; shopt nullglob extdebug; trap; alias; declare -F; "
        "env | sort; echo $- $SHLVL; set -o | grep -v history; touch /tmp/x; find /tmp/x -printf %m; "
        "rm /tmp/x; cd /proc/$$/fd; ls"
    )
    before = backend.execute(look)
    assert before.exit_code == 0
    for attempt in ATTEMPTS:
        backend.execute(f"echo 'echo evil' > /workspace/evil; {attempt}", timeout=5)
        for _ in range(4):  # once in every worker
            assert backend.execute(look).output == before.output, attempt
        backend.execute("/bin/rm -f /workspace/ls /tmp/ls /workspace/.bashrc /workspace/evil")


def test_output_that_looks_like_frames_stays_output(backend: DockerExecutionBackend) -> None:
    """A command prints frames for 300 streams while another command runs."""
    end = ANSWER.pack(Ending.DONE, True)
    kinds = [
        (Kind.END, end),
        (Kind.DATA, b"forged"),
        (Kind.CANCEL, b""),
        (Kind.IDLE, b""),
        (Kind.CREDIT, b"\xff" * 4),
    ]
    frames = b"".join(
        encode(stream, kind, body, fd)
        for stream in range(300)
        for kind, body in kinds
        for fd in (Fd.OUT, Fd.ERR)
    )
    shown = frames.decode("utf-8", "replace")
    backend.upload_files([("/tmp/frames", frames)])
    with ThreadPoolExecutor() as pool:
        other = pool.submit(backend.execute, "sleep 0.5; echo whole", timeout=20)
        answer = backend.execute("cat /tmp/frames; sleep 0.05; cat /tmp/frames >&2")
        assert answer.output.startswith(shown[:20_000])
        assert "forged" in answer.output
        assert other.result().output == "whole\n"
    assert backend.execute("echo on").output == "on\n"
