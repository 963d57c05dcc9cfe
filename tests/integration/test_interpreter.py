"""The live interpreter: blocks of a session share variables, and nothing they do harms the next (L3)."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.sandbox import RunResult, SandboxLimits
from libs.sandbox.base import ChannelSandbox
from libs.sandbox.container import DockerSandbox
from libs.sandbox.local import LocalSandbox

LOST = "its variables are lost"


@pytest.fixture(scope="module", params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def sandbox(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ChannelSandbox]:
    root: Path = tmp_path_factory.mktemp("workspace")
    made: ChannelSandbox = LocalSandbox(root)
    if request.param == "docker":
        made = DockerSandbox(root, image="code-execution-agent", name="interpreter")
    with made:
        yield made


class Session:
    """Blocks of one session, with a variable `kept` that tells whether it still lives."""

    def __init__(self, sandbox: ChannelSandbox) -> None:
        self.sandbox = sandbox
        self.name = str(random.random())
        self("kept = 1")

    def __call__(self, code: str, timeout: float = 20) -> RunResult:
        return self.sandbox.run_python(code, session=self.name, timeout=timeout)

    def lives(self) -> bool:
        return self("kept").output == "1\n"


@pytest.fixture
def block(sandbox: ChannelSandbox) -> Session:
    return Session(sandbox)


class TestBlocks:
    def test_variables_imports_and_functions_stay(self, block: Session) -> None:
        assert block("import math\ndef area(r):\n    return math.pi * r * r").output == ""
        assert block("round(area(2), 3)").output == "12.566\n"

    def test_sessions_are_apart(self, sandbox: ChannelSandbox, block: Session) -> None:
        other = Session(sandbox)
        block("mine = 1")
        assert "NameError" in other("mine").output

    @pytest.mark.parametrize(
        ("code", "shown"),
        [
            ("1 + 1", "2\n"),
            ("'a'", "'a'\n"),
            ("None", ""),
            ("print('p')", "p\n"),
            ("x = 5", ""),
            ("x = 5; x", "5\n"),
            ("1\n2", "2\n"),
            ("", ""),
            ("# nothing", ""),
            ("if True:\n    7", ""),
            ("'a';", ""),
            ("('ä',\n 1); # no more", ""),
            ("'a' # ;", "'a'\n"),
            ("await __import__('asyncio').sleep(0, 1);", ""),
            ("'ä€😀'", "'ä€😀'\n"),
        ],
    )
    def test_the_last_expression_is_shown(self, block: Session, code: str, shown: str) -> None:
        result = block(code)
        assert (result.output, result.exit_code) == (shown, 0)

    def test_annotations_are_what_they_are_in_any_program(self, block: Session) -> None:
        block("import dataclasses\n@dataclasses.dataclass\nclass Point:\n    x: int")
        assert block("dataclasses.fields(Point)[0].type").output == "<class 'int'>\n"
        block("from __future__ import annotations\ndef later(x: Missing): pass")
        assert block("later.__annotations__").output == "{'x': 'Missing'}\n"

    def test_a_traceback_shows_the_blocks_own_lines(self, block: Session) -> None:
        block("def divide(a):\n    return a / 0")
        result = block("value = 3\ndivide(value)")
        assert result.exit_code == 1
        lines = result.output.splitlines()
        assert lines[0] == "Traceback (most recent call last):"
        assert lines[1].endswith("line 2, in <module>")
        assert lines[2].strip() == "divide(value)"
        assert "return a / 0" in result.output
        assert lines[-1] == "ZeroDivisionError: division by zero"
        assert "repl.py" not in result.output

    def test_the_texts_of_the_latest_blocks_alone_are_kept(self, block: Session) -> None:
        for number in range(1_050):
            block(f"number = {number}")
        block("import inspect, linecache\ndef late():\n    return 1")
        assert "return 1" in block("inspect.getsource(late)").output
        kept = "sum(name.startswith('<block') for name in linecache.cache)"
        assert block(kept).output == "1000\n"

    def test_of_a_librarys_frames_only_the_last_is_shown(self, block: Session) -> None:
        lines = block("import json\njson.loads('{')").output.splitlines()
        first, last = [line for line in lines if line.startswith("  File")]
        assert first.endswith('>", line 2, in <module>')
        assert "json/decoder.py" in last
        assert lines[-1].startswith("json.decoder.JSONDecodeError: Expecting property name")

    def test_what_led_to_an_error_in_the_blocks_own_lines_is_shown(self, block: Session) -> None:
        output = block("try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError('mine')").output
        assert "ZeroDivisionError" in output
        assert output.endswith("ValueError: mine\n")

    def test_a_syntax_error_names_line_and_place(self, block: Session) -> None:
        result = block("x = 1\ny = = 2")
        assert result.exit_code == 1
        assert "line 2" in result.output
        assert "y = = 2" in result.output
        assert "SyntaxError" in result.output
        assert "ast.py" not in result.output
        assert block("kept").output == "1\n"

    def test_what_subprocesses_and_c_print_comes_too(self, block: Session) -> None:
        result = block(
            "import ctypes, os\nprint('one', flush=True)\nos.system('echo two')\n"
            "ctypes.CDLL(None).puts(b'three')\nNone"
        )
        assert result.output == "one\ntwo\nthree\n"

    @pytest.mark.parametrize("code", ["exit()", "import sys; sys.exit(0)", "raise SystemExit"])
    def test_leaving_ends_the_block_alone(self, block: Session, code: str) -> None:
        assert block(code).exit_code == 0
        assert block.lives()

    def test_leaving_with_a_message(self, block: Session) -> None:
        result = block("import sys; sys.exit('no data')")
        assert (result.output, result.exit_code) == ("no data\n", 1)

    def test_input_and_closed_streams_do_not_hang(self, block: Session) -> None:
        assert "EOFError" in block("input()").output
        block("import sys; sys.stdout.close(); sys.stderr.close()")
        assert block("print('back')").output == "back\n"
        block("import os; os.close(0); os.close(1); os.close(2)")
        assert block("print('again')").output == "again\n"
        block("import io, sys; sys.stdout = io.StringIO()")
        assert block("print('and again')").output == "and again\n"

    @pytest.mark.parametrize(
        ("code", "said"),
        [
            ("import os; os.close(2); 1 / 0", "ZeroDivisionError: division by zero\n"),
            ("import sys; sys.stderr.close(); sys.exit('no data')", "no data\n"),
            ("import sys; print('a', end=' '); sys.exit('b')", "a b\n"),
            ("print('a', end=' '); raise ValueError('b')", "ValueError: b\n"),
        ],
    )
    def test_what_went_wrong_is_said_whatever_became_of_the_streams(
        self, block: Session, code: str, said: str
    ) -> None:
        result = block(code)
        assert result.exit_code == 1
        assert result.output.endswith(said)
        assert result.output.startswith("a ") == ("'a'" in code)
        assert block.lives()

    def test_a_fork_that_comes_to_the_end_of_its_block_runs_no_other(self, block: Session) -> None:
        result = block("import os\nmine = os.fork()\nif mine:\n    _ = os.waitpid(mine, 0)\nprint(mine > 0)")
        assert (result.output, result.exit_code) == ("False\nTrue\n", 0)
        assert [block(f"mine > 0, {number}").output for number in range(4)] == [
            f"(True, {number})\n" for number in range(4)
        ]

    def test_what_goes_on_printing_delays_nothing(self, sandbox: ChannelSandbox, block: Session) -> None:
        number = random.randint(10**8, 10**9)
        begun = time.monotonic()
        block(f"import subprocess; flood = subprocess.Popen(['yes', '{number}'])")
        for _ in range(3):
            time.sleep(0.2)  # the pipe fills
            assert block("kept").exit_code == 0
        assert time.monotonic() - begun < 5
        block("flood.kill(); flood.wait()")
        assert block.lives()

    def test_threads_asyncio_and_multiprocessing(self, block: Session) -> None:
        threads = "import threading\nt = threading.Thread(target=lambda: print('t'))\nt.start()\nt.join()"
        assert block(threads).output == "t\n"
        assert block("import asyncio\nasyncio.run(asyncio.sleep(0.01, 'slept'))").output == "'slept'\n"
        assert block("await asyncio.sleep(0.01, 'awaited')").output == "'awaited'\n"
        pool = "import multiprocessing\ndef double(x):\n    return 2 * x\n"
        result = block(pool + "with multiprocessing.Pool(2) as pool:\n    print(pool.map(double, [1, 2]))")
        assert result.output == "[2, 4]\n"

    def test_classes_can_be_pickled(self, block: Session) -> None:
        block("import pickle\nclass Point:\n    x = 3")
        assert block("pickle.loads(pickle.dumps(Point())).x").output == "3\n"

    def test_long_output_is_cut_and_kept(self, sandbox: ChannelSandbox, block: Session) -> None:
        result = block("for i in range(30_000):\n    print(i)")
        assert result.truncated
        assert "characters left out; the whole output is in" in result.output
        assert result.output.endswith("\n29999\n")
        assert result.spill_path
        assert sandbox.read_file(result.spill_path).splitlines() == [b"%d" % i for i in range(30_000)]

    def test_output_comes_while_it_runs(self, sandbox: ChannelSandbox, block: Session) -> None:
        seen: list[tuple[float, bytes]] = []
        sandbox.run_python(
            "import time\nprint('first')\ntime.sleep(1)\nprint('last')",
            session=block.name,
            on_output=lambda data: seen.append((time.monotonic(), data)),
        )
        assert b"".join(data for _, data in seen) == b"first\nlast\n"
        assert time.monotonic() - seen[0][0] > 0.8

    async def test_blocks_of_one_session_run_one_after_the_other(self, sandbox: ChannelSandbox) -> None:
        await sandbox.arun_python("log = []", session="order")
        await asyncio.gather(
            *(
                sandbox.arun_python(
                    f"import time\nlog.append({i})\ntime.sleep(0.02)\nlog.append({i})", session="order"
                )
                for i in range(5)
            )
        )
        result = await sandbox.arun_python("[log[i] == log[i + 1] for i in range(0, 10, 2)]", session="order")
        assert result.output == "[True, True, True, True, True]\n"

    @pytest.mark.parametrize("code", ["x = 1\0", "s = '\ud800'"])
    def test_odd_code_is_an_error_not_an_end(self, block: Session, code: str) -> None:
        try:
            assert block(code).exit_code == 1
        except ValueError as error:
            assert "no character" in str(error)
        assert block.lives()


class TestEnds:
    @pytest.mark.parametrize(
        "code",
        [
            "import time; time.sleep(60)",
            "while True: pass",
            "import re; re.match('(a+)+b', 'a' * 40)",
            "import subprocess; subprocess.run(['sleep', '60'])",
        ],
    )
    def test_a_time_out_interrupts_and_keeps_the_variables(self, block: Session, code: str) -> None:
        begun = time.monotonic()
        result = block(code, 0.5)
        assert result.timed_out
        assert result.exit_code == 124
        assert result.output.endswith(
            "[timed out after 0.5 s: the block was interrupted, its variables are kept]"
        )
        assert time.monotonic() - begun < 1.5
        assert block.lives()

    @pytest.mark.parametrize(
        "code",
        [
            "sum(range(10**12))",
            "import time\nwhile True:\n    try:\n        time.sleep(9)\n    except BaseException: pass",
            "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(60)",
            "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        ],
    )
    def test_one_that_does_not_heed_it_is_replaced(self, block: Session, code: str) -> None:
        result = block(code, 0.5)
        assert result.exit_code == 124
        assert result.output.endswith(f"[timed out after 0.5 s: the interpreter was ended, {LOST}]")
        assert not block.lives()
        assert block("2 + 2").output == "4\n"

    def test_what_an_interrupted_block_awaited_goes_on_in_no_other(self, block: Session) -> None:
        result = block("import asyncio\nawait asyncio.sleep(1.2)\nlate = True", 0.5)
        assert result.output.endswith("its variables are kept]")
        assert block("await asyncio.sleep(1.2)\n'late' in globals()").output == "False\n"

    def test_what_forks_without_end_below_an_interrupted_block_is_gone(
        self, sandbox: ChannelSandbox, block: Session
    ) -> None:
        """Each process leaves another behind and ends, so that one look finds what is gone by its end."""
        sandbox.write_file("heart", b"")
        code = (
            "import os, time\nif os.fork() == 0:\n    os.setsid()\n    while True:\n"
            "        if os.fork(): os._exit(0)\n"
            "        with open('heart', 'a') as heart: heart.write('.')\n        time.sleep(0.002)\n"
            "time.sleep(60)"
        )
        result = block(code, 1)
        assert result.output.endswith("the block was interrupted, its variables are kept]")
        size = len(sandbox.read_file("heart"))
        assert size > 20
        time.sleep(0.3)
        assert len(sandbox.read_file("heart")) == size
        assert block.lives()

    async def test_what_is_given_up_at_once_costs_no_variables(self, tmp_path: Path) -> None:
        """Both words are there when the supervisor reads."""
        with LocalSandbox(tmp_path) as sandbox:
            await sandbox.arun_python("x = 1", session="s")
            assert sandbox.process
            sandbox.process.send_signal(signal.SIGSTOP)
            gone = asyncio.create_task(sandbox.arun_python("open('begun', 'w')", session="s"))
            await asyncio.sleep(0.1)
            gone.cancel()
            await asyncio.sleep(0.1)
            sandbox.process.send_signal(signal.SIGCONT)
            assert (await sandbox.arun_python("print(x)", session="s")).output == "1\n"
            assert not (tmp_path / "begun").exists()

    def test_what_an_interrupted_block_started_is_gone(self, sandbox: ChannelSandbox, block: Session) -> None:
        number = str(random.randint(10**8, 10**9))
        block("import os; os.system('sleep 100000 &')")
        time.sleep(0.05)  # the kernel tells the age of a process to a hundredth of a second
        block(f"import os; os.system('(setsid sleep {number} &) ; sleep {number}')", 0.5)
        assert sandbox.run(f"pgrep -f '[{number[0]}]{number[1:]}'").output == ""
        assert sandbox.run("pgrep -f '[s]leep 100000'").output, "what an earlier block started goes on"
        sandbox.run("pkill -f '[s]leep 100000'")

    @pytest.mark.parametrize(
        ("code", "told", "exit_code"),
        [
            ("import os; os._exit(3)", "exit code 3", 3),
            ("import os; os.kill(os.getpid(), 9)", "signal 9", 137),
            ("import ctypes; ctypes.string_at(0)", "signal 11", 139),
        ],
    )
    def test_one_that_ends_says_so_and_is_replaced(
        self, block: Session, code: str, told: str, exit_code: int
    ) -> None:
        result = block(code)
        assert result.exit_code == exit_code
        assert told in result.output
        assert LOST in result.output
        assert "NameError" in block("kept").output
        assert block("1").output == "1\n"

    async def test_cancelling_interrupts(self, sandbox: ChannelSandbox, block: Session) -> None:
        task = asyncio.create_task(
            sandbox.arun_python("import time; time.sleep(60)", session=block.name, timeout=100)
        )
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        begun = time.monotonic()
        assert (await sandbox.arun_python("kept", session=block.name)).output == "1\n"
        assert time.monotonic() - begun < 1

    def test_a_ninth_session_ends_the_one_that_rested_longest(self, sandbox: ChannelSandbox) -> None:
        sessions = [Session(sandbox) for _ in range(9)]
        assert not sessions[0].lives()
        assert sessions[2].lives()
        assert sessions[8].lives()


@pytest.mark.docker
class TestContainer:
    def test_figures_left_open_are_saved_and_named(self, tmp_path: Path) -> None:
        with DockerSandbox(tmp_path, image="code-execution-agent", name="interpreter") as sandbox:
            code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.figure()\nplt.bar([1], [2])\nNone"
            result = sandbox.run_python(code, session="a")
            assert result.output == (
                "[figure saved: /results/figure-1.png]\n[figure saved: /results/figure-2.png]\n"
            )
            assert (tmp_path / "results/figure-2.png").read_bytes().startswith(b"\x89PNG")
            assert sandbox.run_python("plt.get_fignums()", session="a").output == "[]\n"

    def test_a_figure_that_cannot_be_drawn_costs_itself_alone(self, tmp_path: Path) -> None:
        with DockerSandbox(tmp_path, image="code-execution-agent", name="interpreter") as sandbox:
            code = (
                "import matplotlib.pyplot as plt\n_ = plt.title('$x_{^$'); plt.figure(); plt.plot([1]); None"
            )
            output = sandbox.run_python(code, session="a").output
            assert "[a figure could not be saved: " in output
            assert "[figure saved: /results/figure-" in output
            assert sandbox.run_python("print(1)", session="a").output == "1\n"

    def test_an_error_is_followed_by_the_tables_there_are(self, tmp_path: Path) -> None:
        with DockerSandbox(tmp_path, image="code-execution-agent", name="interpreter") as sandbox:
            code = "import pandas as pd\nsales = pd.DataFrame({'city': ['Rome'], 'units': [3]})\n_own = sales"
            sandbox.run_python(code, session="a")
            output = sandbox.run_python("sales['unit']", session="a").output
            table = "[sales: a DataFrame of 1 rows with the columns city (text), units (int64)]\n"
            assert output.endswith(f"KeyError: 'unit'\n{table}")
            assert "The above exception" not in output  # pandas' own way to it
            assert table not in sandbox.run_python("1 / 0", session="a").output

    def test_a_name_that_a_module_does_not_have_is_followed_by_those_it_has(self, tmp_path: Path) -> None:
        with DockerSandbox(tmp_path, image="code-execution-agent", name="interpreter") as sandbox:
            output = sandbox.run_python("from json import parse", session="a").output
            assert output.endswith(
                "[json has dump, dumps, load, loads, JSONDecoder, JSONDecodeError, JSONEncoder]\n"
            )
            for code in ("import nothing_at_all", "raise ImportError"):
                assert "has" not in sandbox.run_python(code, session="a").output

    def test_a_call_that_does_not_fit_is_followed_by_how_it_is_called(self, tmp_path: Path) -> None:
        with DockerSandbox(tmp_path, image="code-execution-agent", name="interpreter") as sandbox:
            sandbox.run_python(
                "def add(a: int, b: int = 2, *, sign: str = '+') -> int:\n    return a + b", session="a"
            )
            for call in ("add(1, aggfunc=3)", "add()", "add(1, 2, 3)"):
                output = sandbox.run_python(call, session="a").output
                assert output.endswith("[it is called as add(a, b=2, *, sign='+')]\n"), output
            for call in ("len()", "nothing_at_all()", "add(1, 'x')"):
                assert "it is called" not in sandbox.run_python(call, session="a").output

    def test_a_column_of_another_table_is_named_with_the_way_to_it(self, tmp_path: Path) -> None:
        with DockerSandbox(tmp_path, image="code-execution-agent", name="interpreter") as sandbox:
            code = (
                "import pandas as pd\npeople = pd.DataFrame({'id': [1, 2], 'city': ['Rome', 'Oslo']})\n"
                "orders = pd.DataFrame({'person_id': [2, 2, 1], 'units': [3, 4, 5]})\n"
                "orders.groupby('city')['units'].sum()"
            )
            output = sandbox.run_python(code, session="a").output
            way = "orders.merge(people, left_on='person_id', right_on='id')"
            assert "['city' is a column of people: to have it in another table, merge the two" in output
            assert output.endswith(f"as in {way}]\n")
            assert sandbox.run_python(f"len({way})", session="a").output == "3\n"

    def test_a_block_that_answers_for_itself_ends_its_interpreter(self, block: Session) -> None:
        for answer in ("b'\\0'", "b'\\0' * 9", "b'x' * 64"):
            begun = time.monotonic()
            result = block(f"import os\nprint('on')\nos.write(4, {answer})\nwhile True: pass", timeout=10)
            assert result.exit_code != 0
            assert "answered in its place" in result.output
            assert time.monotonic() - begun < 5
            assert block("1 + 1").output.endswith("2\n")

    def test_nor_does_one_answer_for_the_next(self, block: Session) -> None:
        late = "def late():\n    time.sleep(0.3)\n    os.write(4, b'\\0' * 9)\n"
        block(f"import os, threading, time\n{late}threading.Thread(target=late).start()")
        result = block("time.sleep(1)\nprint('mine')", timeout=10)
        assert "answered in its place" in result.output
        assert [block(f"print({number})").output.splitlines()[-1] for number in range(4)] == list("0123")

    def test_memory_used_up_ends_the_interpreter_not_the_sandbox(self, tmp_path: Path) -> None:
        limits = SandboxLimits(memory=256 * 2**20, tmp=16 * 2**20)
        with DockerSandbox(
            tmp_path, image="code-execution-agent", name="interpreter", limits=limits
        ) as sandbox:
            sandbox.run_python("kept = 1", session="a")
            first = sandbox.container_name
            result = sandbox.run_python("hog = bytearray(2**30)", session="a")
            assert result.exit_code in (1, 137)
            assert "memory" in result.output.lower()
            assert sandbox.run_python("1 + 1", session="a").output == "2\n"
            assert sandbox.container_name == first
