"""The live interpreter: shared state of a session, output and errors of blocks."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from libs.sandbox.host.channel_sandbox import ChannelSandbox
from tests.support.commands.engines import Engines
from tests.support.sandboxes import ON_BOTH, Session


class TestShared:
    @ON_BOTH
    def test_session_keeps_variables_imports_and_functions(
        self, sandbox: ChannelSandbox, block: Session
    ) -> None:
        assert block("import math\ndef area(r):\n    return math.pi * r * r").output == ""
        assert block("round(area(2), 3)").output == "12.566\n"
        assert "NameError" in Session(sandbox)("area").output

    def test_threads_asyncio_pickle_and_multiprocessing_work(self, block: Session) -> None:
        threads = "import threading\nt = threading.Thread(target=lambda: print('t'))\nt.start()\nt.join()"
        assert block(threads).output == "t\n"
        assert block("import asyncio\nasyncio.run(asyncio.sleep(0.01, 'slept'))").output == "'slept'\n"
        assert block("await asyncio.sleep(0.01, 'awaited')").output == "'awaited'\n"
        pool = "import multiprocessing\ndef double(x):\n    return 2 * x\n"
        result = block(pool + "with multiprocessing.Pool(2) as pool:\n    print(pool.map(double, [1, 2]))")
        assert result.output == "[2, 4]\n"
        block("import pickle\nclass Point:\n    x = 3")
        assert block("pickle.loads(pickle.dumps(Point())).x").output == "3\n"

    async def test_blocks_of_one_session_run_one_after_the_other(self, sandbox: ChannelSandbox) -> None:
        await sandbox.arun_python("log = []", session="order")
        code = "import time\nlog.append({0})\ntime.sleep(0.02)\nlog.append({0})"
        await asyncio.gather(
            *(sandbox.arun_python(code.format(number), session="order") for number in range(5))
        )
        result = await sandbox.arun_python("[log[i] == log[i + 1] for i in range(0, 10, 2)]", session="order")
        assert result.output == "[True, True, True, True, True]\n"

    def test_forked_child_runs_no_further_block(self, block: Session) -> None:
        result = block("import os\nmine = os.fork()\nif mine:\n    _ = os.waitpid(mine, 0)\nprint(mine > 0)")
        assert (result.output, result.exit_code) == ("False\nTrue\n", 0)
        assert [block(f"mine > 0, {number}").output for number in range(4)] == [
            f"(True, {number})\n" for number in range(4)
        ]

    def test_child_of_a_forked_child_keeps_the_files_of_its_parent(self, block: Session) -> None:
        code = (
            "import os\nif not os.fork():\n    ours = os.pipe()\n    if not os.fork():\n"
            "        os.write(ours[1], b'kept')\n        print(os.read(ours[0], 9), flush=True)\n"
            "    else:\n        os.wait()\n    os._exit(0)\nos.wait();"
        )
        assert block(code).output == "b'kept'\n"


class TestOutput:
    @pytest.mark.parametrize(
        ("code", "shown"),
        [
            ("None", ""),
            ("x = 5; x", "5\n"),
            ("1\n2", "2\n"),
            ("# nothing", ""),
            ("('ä',\n 1); # no more", ""),
            ("'a' # ;", "'a'\n"),
            ("await __import__('asyncio').sleep(0, 1);", ""),
            ("'ä€😀'", "'ä€😀'\n"),
        ],
    )
    def test_last_expression_is_printed(self, block: Session, code: str, shown: str) -> None:
        result = block(code)
        assert (result.output, result.exit_code) == (shown, 0)

    def test_output_of_subprocesses_and_c_is_included(self, block: Session) -> None:
        result = block(
            "import ctypes, os\nprint('one', flush=True)\nos.system('echo two')\n"
            "ctypes.CDLL(None).puts(b'three')\nNone"
        )
        assert result.output == "one\ntwo\nthree\n"

    def test_output_is_live(self, sandbox: ChannelSandbox, block: Session, engines: Engines) -> None:
        """The block waits for a file that is made when its first line is shown."""
        shown: list[bytes] = []

        def show(data: bytes) -> None:
            shown.append(data)
            engines.on_host(sandbox, "shown").touch()

        wait = "while not os.path.exists('shown'):\n    time.sleep(0.02)"
        code = f"import os, time\nprint('first')\n{wait}\nprint('last')"
        result = sandbox.run_python(code, session=block.name, timeout=30, on_output=show)
        assert (result.exit_code, b"".join(shown)) == (0, b"first\nlast\n")

    def test_input_and_closed_streams_do_not_hang(self, block: Session) -> None:
        assert "EOFError" in block("input()").output
        block("import sys; sys.stdout.close(); sys.stderr.close()")
        assert block("print('back')").output == "back\n"
        block("import os; os.close(0); os.close(1); os.close(2)")
        assert block("print('again')").output == "again\n"
        assert block("import os; os.close(1); print('shown')").output.endswith("\nshown\n")
        assert block("print('once')").output == "once\n"
        block("import io, sys; sys.stdout = io.StringIO()")
        assert block("print('and again')").output == "and again\n"

    def test_stream_that_replaces_a_closed_one_changes_no_text(self, block: Session) -> None:
        """Also in a locale that knows only ASCII."""
        block("import locale, sys\nlocale.setlocale(locale.LC_ALL, 'C')\nsys.stdout.close()")
        assert block("print('é')").output == "é\n"
        assert "UnicodeEncodeError" in block("print(chr(0xd800))").output

    @pytest.mark.parametrize(
        "change",
        [
            "contextlib.redirect_stdout(io.StringIO()).__enter__()",
            "setattr(sys, 'stdout', None)",
            "sys.stdout.close()",
            "os.close(1)",
            "os.dup2(os.open('/dev/null', os.O_WRONLY), 1)",
        ],
    )
    def test_thread_that_takes_the_output_between_two_blocks_hides_nothing(
        self, block: Session, change: str
    ) -> None:
        block(f"import contextlib, io, os, sys, threading\nlate = threading.Timer(0.2, lambda: {change})")
        block("late.start()")
        time.sleep(1)
        result = block("print('shown')\nlate.is_alive()")
        assert (result.exit_code, result.output) == (0, "shown\nFalse\n")

    @pytest.mark.parametrize("number", [1, 2])
    def test_output_is_whole_after_a_program_made_it_non_blocking(self, block: Session, number: int) -> None:
        change = f"import os\nos.set_blocking({number}, False)\n"
        assert "END\n" in block(f"{change}raise ValueError('a' * 2_000_000 + 'END')").output[-100:]
        block(change)
        result = block("print('a' * 2_000_000 + 'END')")
        assert (result.exit_code, result.output[-4:]) == (0, "END\n")
        block(f"{change}import sys\nfor _ in range(40): sys.stdout.write('b' * 100_000)")
        assert block("print('next')").output == "next\n"

    def test_process_of_an_earlier_block_is_not_stopped_by_its_output(
        self, sandbox: ChannelSandbox, block: Session, engines: Engines
    ) -> None:
        code = "import subprocess\nloud = subprocess.Popen(['bash', '-c', 'sleep 1; seq 100000; touch loud'])"
        assert block(code).output == ""
        deadline = time.monotonic() + 30
        while not engines.on_host(sandbox, "loud").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        note, printed = block("print('mine')").output.splitlines()
        assert (printed, "have printed 588895 bytes since" in note) == ("mine", True)

    @pytest.mark.parametrize("end", ["", "a" * 100_000])
    def test_text_that_a_thread_has_not_written_out_is_not_that_of_the_next_block(
        self, block: Session, end: str
    ) -> None:
        block(f"import threading\nend = {end!r}\nlate = threading.Thread(target=lambda: print(3, end=end))")
        block("threading.Timer(0.1, late.start).start()")
        time.sleep(0.5)
        note = (
            f"[earlier blocks' threads and processes have printed {1 + len(end)} bytes since the last block:"
        )
        assert block("1").output == f"{note} not shown]\n1\n"
        assert block("1").output == "1\n"

    @pytest.mark.parametrize("name", ["stdout", "stderr"])
    def test_text_for_the_first_stream_is_that_of_the_block_that_prints_it(
        self, block: Session, name: str
    ) -> None:
        write = f"sys.__{name}__.write('total: 42');"
        assert block(f"import io, sys\nsys.{name} = io.StringIO()\n{write}").output == "total: 42"
        assert block(write).output == "total: 42"
        assert block("1").output == "1\n"

    def test_printing_child_causes_no_delay(self, block: Session) -> None:
        number = random.randint(10**8, 10**9)
        begun = time.monotonic()
        block(f"import subprocess; flood = subprocess.Popen(['yes', '{number}'])")
        for _ in range(3):
            time.sleep(0.2)  # the pipe fills
            assert block("kept").exit_code == 0
        assert time.monotonic() - begun < 5
        block("flood.kill(); flood.wait()")
        assert block.lives()


class TestErrors:
    def test_traceback_shows_lines_of_the_blocks(self, block: Session) -> None:
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

    @pytest.mark.parametrize(
        ("start", "call"),
        [
            ("from multiprocessing import Pool", "pool.map(half, [0])"),
            ("from concurrent.futures import ProcessPoolExecutor as Pool", "list(pool.map(half, [0]))"),
        ],
    )
    def test_traceback_shows_where_a_process_of_a_pool_failed(
        self, block: Session, start: str, call: str
    ) -> None:
        result = block(f"{start}\ndef half(x):\n    return 1 / x\nwith Pool(1) as pool:\n    {call}")
        assert "line 3, in half\n    return 1 / x\n" in result.output
        assert result.output.endswith("ZeroDivisionError: division by zero\n")

    def test_traceback_shows_the_causes_of_the_blocks(self, block: Session) -> None:
        cause = "The above exception was the direct cause of the following exception:"
        assert block("raise ValueError('outer') from KeyError('inner')").output.startswith(
            f"KeyError: 'inner'\n\n{cause}\n"
        )
        wrapped = (
            "import json\nclass Odd:\n    def keys(self): raise OSError('mine')\n"
            "try: dict(Odd())\nexcept OSError as error: mine = error\n"
            "try: json.loads('{')\nexcept ValueError as error: theirs = error.with_traceback("
            "error.__traceback__.tb_next)\ntheirs.__context__ = mine\nraise KeyError(1) from theirs"
        )
        output = block(wrapped).output
        assert "OSError: mine\n" in output
        assert "JSONDecodeError" not in output

    def test_traceback_has_every_cause_of_an_endless_recursion(self, block: Session) -> None:
        block("def f(n):\n    try: f(n + 1)\n    except Exception as error: raise ValueError(n) from error")
        shown = block("f(0)").output
        assert shown.startswith("Traceback (most recent call last):\n")
        assert ", line 1, in <module>\n    f(0)\n" in shown
        assert shown.endswith("\nValueError: 0\n")

    def test_traceback_that_lacks_calls_says_so(self, block: Session) -> None:
        block("def f(n): return f(n - 1) if n else 1 / 0")
        told = "[the traceback shows at most the last 100 of 502 calls]\n"
        assert block("f(500)").output.endswith(f"ZeroDivisionError: division by zero\n{told}")
        assert block("f(50)").output.endswith("ZeroDivisionError: division by zero\n")
        caused = "try: f(500)\nexcept ArithmeticError as error: "
        told = "\n[the traceback shows at most the last 100 of 502 calls of the cause ZeroDivisionError]\n"
        assert block(caused + "raise KeyError(1) from error").output.endswith(f"KeyError: 1{told}")
        assert block(caused + "int('x')").output.endswith(f"'x'{told}")
        assert block(caused + "raise KeyError(1) from None").output.endswith("KeyError: 1\n")
        group = "import asyncio\nasync def main():\n    async with asyncio.TaskGroup() as tasks:\n"
        group += "        tasks.create_task(part())\nasync def part(): f(400)\nawait main()"
        told = "[the traceback shows at most the last 100 of 402 calls of the part ZeroDivisionError]\n"
        assert block(group).output.endswith(told)

    def test_named_cause_stays_if_its_last_calls_are_all_in_libraries(self, block: Session) -> None:
        block("import copy\na = []\nfor _ in range(5_000): a = [a]")
        output = block("try: copy.deepcopy(a)\nexcept RecursionError as e: raise ValueError from e").output
        assert "RecursionError: maximum recursion depth exceeded" in output
        assert "The above exception was the direct cause" in output
        assert output.endswith("calls of the cause RecursionError]\n")

    def test_syntax_error_shows_the_line(self, block: Session) -> None:
        result = block("x = 1\ny = = 2")
        assert result.exit_code == 1
        assert "line 2" in result.output
        assert "y = = 2" in result.output
        assert "SyntaxError" in result.output
        assert "ast.py" not in result.output
        assert block.lives()

    @pytest.mark.parametrize(
        ("code", "output", "exit_code"),
        [
            ("exit()", "", 0),
            ("import sys; print('a', end=' '); sys.exit('b')", "a b\n", 1),
            ("import sys; sys.stderr.close(); sys.exit('no data')", "no data\n", 1),
        ],
    )
    def test_exit_ends_only_the_block(self, block: Session, code: str, output: str, exit_code: int) -> None:
        result = block(code)
        assert (result.output, result.exit_code) == (output, exit_code)
        assert block.lives()
