"""The interpreter keeps values, exit codes and source lines as they are, and says what it leaves out."""

from __future__ import annotations

import pytest

from tests.support.sandboxes import NEW_INTERPRETER, Session

BROKEN = (
    "[a block has broken the code of the interpreter itself, or a process wrote to its pipes]\n"
    "\n[the interpreter ended with exit code 1: its variables are lost]"
)


class TestSource:
    @pytest.mark.parametrize(
        ("code", "shown"), [("x = 1\r5", "5\n"), ("x = 1\r5;", ""), ("x = 1\r\n6\r\n", "6\n"), ("1\f;", "")]
    )
    def test_last_expression_after_each_kind_of_line_end(self, block: Session, code: str, shown: str) -> None:
        result = block(code)
        assert (result.exit_code, result.output) == (0, shown)

    @pytest.mark.parametrize("mark", ["\u2028", "\x1c", "\f", "\x85"])
    def test_traceback_quotes_the_right_line_after_a_separator_in_a_text(
        self, block: Session, mark: str
    ) -> None:
        assert "line 2, in <module>\n    1 / 0\n" in block(f"x = 'a{mark}b'\n1 / 0").output

    @pytest.mark.parametrize("end", ["", "\n", "\r"])
    def test_traceback_marks_the_error_in_a_last_line(self, block: Session, end: str) -> None:
        assert "\n    [lost]\n     ^^^^\n" in block(f"[lost]{end}").output


class TestWarnings:
    def test_each_block_shows_its_warnings_unless_a_block_has_silenced_them(self, block: Session) -> None:
        warned = "import warnings\nwarnings.warn('bad')"
        assert "UserWarning: bad" in block(warned).output
        assert block(f"for _ in range(3):\n    {warned.partition(chr(10))[2]}").output.count("bad") == 2
        assert "UserWarning: bad" in block(warned).output
        block("warnings.simplefilter('ignore')")
        assert block(warned).output == ""

    def test_warning_about_the_end_of_an_earlier_value_names_that_value(self, block: Session) -> None:
        block("async def main(): pass\nmain()")
        warned = "<value of an earlier block>:1: RuntimeWarning: coroutine 'main' was never awaited\n"
        output = block("5").output
        assert output.startswith(warned)
        assert output.endswith("\n5\n")
        assert "block_session" not in output


class TestValues:
    def test_variable_named_underscore_is_kept(self, block: Session) -> None:
        assert block("3").output == "3\n"
        assert block("_ + 1").output == "4\n"
        block("_ = 'mine'")
        assert block("3").output == "3\n"
        assert block("_").output == "'mine'\n"

    def test_context_variables_set_beside_await_are_kept(self, block: Session) -> None:
        block("import asyncio, contextvars, decimal\nmine = contextvars.ContextVar('mine', default=0)")
        block("decimal.getcontext().prec = 3\nmine.set(7)\nawait asyncio.sleep(0);")
        assert block("mine.get(), decimal.Decimal(1) / 3").output == "(7, Decimal('0.333'))\n"
        assert block("await asyncio.sleep(0)\nmine.get()").output == "7\n"

    def test_standard_input_is_at_its_end_after_exit(self, block: Session) -> None:
        block("exit()")  # closes sys.stdin
        assert "EOFError" in block("input()").output
        block("import os\nos.close(0)\nmine = open('/etc/passwd')")
        assert block("mine.fileno(), len(mine.readline()) > 0").output == "(0, True)\n"
        block("import io, sys\nsys.stdin = io.StringIO('mine')")
        assert block("input()").output == "'mine'\n"


class TestExitCodes:
    @pytest.mark.parametrize("code", ["False", "C.OK", "0", "None"])
    def test_exit_with_zero_is_a_success(self, block: Session, code: str) -> None:
        result = block(f"import enum, sys\nclass C(enum.IntEnum):\n    OK = 0\nsys.exit({code})")
        assert (result.exit_code, result.output) == (0, "")

    @pytest.mark.parametrize(
        ("before", "code", "has_rest"),
        [
            ("", "if True:\n    exit()\nprint('end')", True),
            ("", "await asyncio.sleep(0)\nexit()\nprint('end')", True),
            ("", "def main():\n    exit()\nif True:\n    main()", False),
            ("", "await asyncio.sleep(0)\nexit()", False),
            ("", "import sys; sys.exit(0); print('end')", True),
            ("", "1; exit()", False),
            ("", "exit(); await asyncio.sleep(0)", True),
            ("", "import os\nif not os.fork():\n    exit()\nos.wait();", False),
            (
                "async def t():\n    await asyncio.sleep(0.1)\n    exit()\n"
                "t = asyncio.ensure_future(t())\nawait asyncio.sleep(0)",
                "await asyncio.sleep(9)",
                True,
            ),
            (
                "signal.signal(signal.SIGALRM, lambda *_: exit())\nsignal.alarm(1);",
                "time.sleep(9)\nprint('end')",
                True,
            ),
            ("class A:\n    def __repr__(self):\n        exit()", "a = A()\na", False),  # all has run
            (
                "class Stop(SystemExit):\n    __traceback__ = property(lambda _: 1 / 0)",
                "raise Stop(0)\nprint('end')",
                True,
            ),
        ],
    )
    def test_exit_before_the_end_of_a_block_is_said(
        self, block: Session, before: str, code: str, has_rest: bool
    ) -> None:
        block("import asyncio, signal, time")
        block(before)
        result = block(code)
        said = "[SystemExit: the rest of the block did not run]\n" if has_rest else ""
        assert (result.exit_code, result.output) == (0, said)

    def test_exit_with_a_text_before_the_end_of_a_block_is_said(self, block: Session) -> None:
        said = "[SystemExit: the rest of the block did not run]\n"
        assert block("import sys; sys.exit('stop')\nprint('end')").output == f"stop\n{said}"
        assert block("sys.exit('stop')").output == "stop\n"

    @pytest.mark.parametrize(
        ("child", "code", "output"),
        [
            ("sys.exit(4)", 4, ""),
            ("sys.exit(-1)", 255, ""),
            ("sys.exit()", 0, ""),
            ("sys.exit('x')", 1, "x\n"),
        ],
    )
    def test_forked_child_ends_with_its_exit_code(
        self, block: Session, child: str, code: int, output: str
    ) -> None:
        result = block(
            f"import os, sys\nchild = os.fork()\nif child == 0: {child}\n"
            "os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])"
        )
        assert result.output == f"{output}{code}\n"
        assert block.lives()


class TestTold:
    @pytest.mark.parametrize(
        "start", ["threading.Timer(0.2, print, ['late'])", "threading.Timer(0.2, int, ['x'])"]
    )
    def test_output_between_two_blocks_is_counted(self, block: Session, start: str) -> None:
        block(f"import threading\nlate = {start}\nlate.start()")
        block.sandbox.run("sleep 1")
        said = block("print('on')").output
        assert said.startswith("[earlier blocks' threads and processes have printed ")
        assert said.endswith(" bytes since the last block: not shown]\non\n")
        assert block("print('on')").output == "on\n"

    @pytest.mark.parametrize(
        "change",
        [
            "plt.get_fignums = None",
            "plt.get_fignums = lambda: 1 / 0",
            "plt.get_fignums = sys.exit",
            "plt.get_fignums = lambda: [1]\nplt.close = lambda number: None\nplt.figure = None",
        ],
    )
    def test_error_of_a_changed_pyplot_is_not_an_error_of_the_block(
        self, block: Session, change: str
    ) -> None:
        code = "import sys, types\nsys.modules['matplotlib.pyplot'] = plt = types.ModuleType('plt')\n"
        result = block(f"{code}{change}\nprint('done')")
        assert result.exit_code == 0
        assert result.output.startswith(
            ("done\n[figures could not be saved", "done\n[a figure could not be saved")
        )
        assert "ZeroDivisionError: division by zero" in block("1 / 0").output

    def test_figures_are_saved_once_and_not_after_a_changed_interrupt(self, block: Session) -> None:
        block(
            "import os, sys, types\nsys.modules['matplotlib.pyplot'] = plt = types.ModuleType('plt')\n"
            "drawn = [1]\nplt.get_fignums = lambda: [*drawn]\nplt.close = drawn.remove"
        )
        saved = "[a figure could not be saved, and is closed: "
        block("drawn.append(1)")
        told = block("drawn.append(1)\nif not os.fork(): sys.exit(3)\nprint(os.wait()[1] >> 8)").output
        assert told.startswith(f"3\n{saved}")
        assert told.count(saved) == 1
        for error in ("ValueError('mine') from None", "SystemExit(130)"):
            changed = f"drawn.append(1)\ntry: raise KeyboardInterrupt\nexcept BaseException: raise {error}"
            assert "[a figure was not saved: the block was interrupted" in block(changed).output

    def test_modules_that_a_block_deletes_are_no_error_of_later_blocks(self, block: Session) -> None:
        result = block("import sys\nkept_modules = sys.modules\ndel sys.modules")
        assert result.exit_code == 0
        result = block("sys.modules = kept_modules\nprint('done')")
        assert (result.exit_code, result.output) == (0, "done\n")

    def test_loop_that_cannot_start_is_the_only_error_of_an_await(self, block: Session) -> None:
        block("import asyncio\nasyncio.new_event_loop = None")
        result = block("await asyncio.sleep(0)")
        assert result.output == "TypeError: 'NoneType' object is not callable\n"

    @pytest.mark.parametrize("change", ["clear()", "update(attempt=None, write=None)"])
    def test_block_that_breaks_the_interpreter_is_told_so_without_a_traceback(
        self, block: Session, change: str
    ) -> None:
        find = "import sys\nf = sys._getframe()\nwhile f.f_code.co_name != '_serve': f = f.f_back\n"
        result = block(f"{find}f.f_globals.{change}")
        assert (result.exit_code, result.output) == (1, BROKEN)
        assert block("print(1)").output == f"{NEW_INTERPRETER}1\n"
