"""Figures and hints that the interpreter adds to a block's output."""

from __future__ import annotations

import pytest

from libs.backends.docker import DockerExecutionBackend
from tests.support.sandboxes import Session

pytestmark = pytest.mark.docker


@pytest.fixture
def block(backend: DockerExecutionBackend) -> Session:
    return Session(backend.sandbox)


class TestFigures:
    def test_open_figures_are_saved_and_named(self, backend: DockerExecutionBackend, block: Session) -> None:
        result = block(
            "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.figure()\nplt.bar([1], [2])\nNone"
        )
        assert result.output == (
            "[figure saved: /results/figure-1.png]\n[figure saved: /results/figure-2.png]\n"
        )
        assert backend.sandbox.read_file("/results/figure-2.png").startswith(b"\x89PNG")
        assert block("plt.get_fignums()").output == "[]\n"

    def test_removed_folder_is_made_again_and_a_figure_that_is_lost_is_named(
        self, backend: DockerExecutionBackend, block: Session
    ) -> None:
        drawn = "import matplotlib.pyplot as plt\nplt.plot([1, 2]);"
        assert backend.execute("rm -r results").exit_code == 0
        assert "[figure saved: /results/" in block(drawn).output
        backend.execute("rm -r results; touch results")
        try:
            assert block(drawn).output.startswith("[a figure could not be saved, and is closed: ")
        finally:
            backend.execute("rm results; mkdir results")

    def test_figures_of_an_interrupted_block_do_not_cost_its_variables(
        self, backend: DockerExecutionBackend
    ) -> None:
        slow = "class Slow(plt.Figure):\n    def savefig(self, *_, **__): time.sleep(60)"
        for _ in range(3):  # an interrupted block has 0.2 s to end; on a busy machine it may be ended instead
            block = Session(backend.sandbox)
            block(f"import os, time, matplotlib.pyplot as plt\nbefore = os.listdir('/results')\n{slow}")
            result = block("for _ in range(2): plt.figure(FigureClass=Slow)\ntime.sleep(60)", 3)
            assert result.timed_out
            if block.lives():
                break
        named = "[2 figures were not saved: the block was interrupted. The figures are closed]\n"
        assert result.output.startswith(named)
        assert block("kept, before == os.listdir('/results'), plt.get_fignums()").output == "(1, True, [])\n"

    def test_interrupted_figure_leaves_no_file_and_is_named(
        self, backend: DockerExecutionBackend, block: Session
    ) -> None:
        block("import os, time\nimport matplotlib.pyplot as plt\nbefore = os.listdir('/results')")
        slow = (
            "class Slow(plt.Figure):\n    def savefig(self, to, **options):\n"
            "        (to if hasattr(to, 'write') else open(to, 'wb')).write(b'part'); time.sleep(60)\n"
        )
        empty = "class Empty(plt.Figure):\n    def savefig(self, to, **options): pass\n"
        output = block(f"{empty}plt.figure(FigureClass=Empty);").output
        why = "ValueError: `savefig` has written nothing"
        assert output == f"[a figure could not be saved, and is closed: {why}]\n"
        output = block(f"{slow}plt.figure(FigureClass=Slow);", 2).output
        assert "[a figure was not saved: the block was interrupted. The figure is closed]\n" in output
        assert block("before == os.listdir('/results'), plt.get_fignums()").output == "(True, [])\n"
        more = block("for each in (plt.Figure, Slow, plt.Figure, Slow): plt.figure(FigureClass=each)", 3)
        assert "[figure saved: /results/figure-" in more.output
        assert (
            "[3 figures were not saved: the block was interrupted. The figures are closed]\n" in more.output
        )
        assert block("plt.get_fignums()").output == "[]\n"


class TestAfterAnError:
    def test_key_error_lists_the_tables(self, block: Session) -> None:
        block("import pandas as pd\nsales = pd.DataFrame({'city': ['Rome'], 'units': [3]})\n_own = sales")
        output = block("sales['unit']").output
        table = "[sales: a DataFrame of 1 rows with the columns city (text), units (int64)]\n"
        assert output.endswith(f"KeyError: 'unit'\n{table}")
        assert "The above exception" not in output  # internal errors of pandas
        assert table not in block("1 / 0").output
        block("a, b, c, d = sales[['city']], sales[['city']], sales[['city']], sales[['city']]")
        output = block("sales['unit']").output
        assert table in output
        assert [name for name in "abcd" if f"[{name}: " in output] == ["c", "d"], "the latest, and the cause"
        assert output.endswith("[and 2 more DataFrames]\n")

    def test_labels_of_a_class_of_the_block_are_only_named(self, block: Session) -> None:
        block(
            "import pandas as pd, time\nclass Slow:\n    def __str__(self): time.sleep(60)\n"
            "    __repr__ = __str__\n"
            "slow = pd.DataFrame([[1, 2]], columns=[Slow(), ('a', ('b', Slow()))])"
        )
        output = block("missing", 10).output
        assert output.endswith("columns <Slow> (int64), <tuple> (int64)]\n")

    def test_missing_column_of_another_table_has_a_merge_hint(self, block: Session) -> None:
        output = block(
            "import pandas as pd\npeople = pd.DataFrame({'id': [1, 2], 'city': ['Rome', 'Oslo']})\n"
            "orders = pd.DataFrame({'person_id': [2, 2, 1], 'units': [3, 4, 5]})\n"
            "orders.groupby('city')['units'].sum()"
        ).output
        way = "orders.merge(people, left_on='person_id', right_on='id')"
        assert "['city' is a column of people: to have it in another table, merge the two" in output
        assert output.endswith(f"as in {way}]\n")
        assert block(f"len({way})").output == "3\n"

    @pytest.mark.parametrize(
        ("orders", "key", "hint"),
        [
            ("{'id': [1, 2, 3], 'person_id': [2, 2, 1]}", "id", "left_on='person_id', right_on='id')]\n"),
            (
                "{'id': [1, 2, 3], 'person_id': [2, 2, 1]}",
                "person_id",
                "left_on='person_id', right_on='person_id')]\n",
            ),
            ("{'id': [1, 2, 3], 'person': [2, 2, 1]}", "id", "merge the two first]\n"),
            ("{'from_id': [1, 1, 2], 'to_id': [2, 2, 1]}", "id", "merge the two first]\n"),
        ],
    )
    def test_merge_hint_names_the_key_of_the_other_table_only_if_it_is_certain(
        self, block: Session, orders: str, key: str, hint: str
    ) -> None:
        output = block(
            "import pandas as pd\n"
            f"people = pd.DataFrame({{{key!r}: [1, 2, 3], 'city': ['Rome', 'Oslo', 'Ulm']}})\n"
            f"orders = pd.DataFrame({orders})\norders['city']"
        ).output
        assert output.endswith(hint)

    def test_merge_hint_about_wide_tables_takes_no_long_time(self, block: Session) -> None:
        block(
            "import numpy as np, pandas as pd\nwide = pd.DataFrame(np.random.rand(50_000, 300))"
            ".add_prefix('c')\nother = (wide + 2).assign(city='Rome')"
        )
        result = block("wide['city']")
        assert result.output.endswith("merge the two first]\n")
        assert result.seconds < 5  # 36 s without a limit

    def test_long_name_is_cut(self, block: Session) -> None:
        block("import pandas as pd\nwrong = pd.DataFrame({'a;b' * 50_000: [1]})")
        assert block("wrong['a']").output.endswith(f" columns {'a;b' * 66}a;… (int64)]\n")

    def test_failed_import_lists_the_names_of_the_module(self, block: Session) -> None:
        output = block("from json import parse").output
        assert output.endswith(
            "[json has dump, dumps, load, loads, JSONDecoder, JSONDecodeError, JSONEncoder]\n"
        )
        others = block("import os\nlen(os.__all__) - 20").output.strip()
        assert block("from os import parse").output.endswith(f", _exit, CLD_CONTINUED and {others} more]\n")
        for code in ("import nothing_at_all", "raise ImportError"):
            assert "has" not in block(code).output

    def test_failed_import_lists_only_names_that_the_module_has(self, block: Session) -> None:
        block("import sys, types\nhalf = sys.modules['half'] = types.ModuleType('half')\nhalf.made = 1")
        block("half.__all__ = ['made', 'planned']")
        assert block("from half import planned").output.endswith("\n[half has made]\n")
        assert ", sax, " in block("from xml import planned").output  # not imported yet
        assert "ProcessPoolExecutor" in block("from concurrent.futures import planned").output

    def test_only_a_table_that_lacks_a_column_has_hints_about_tables(self, block: Session) -> None:
        block(
            "import os, pandas as pd\npeople = pd.DataFrame({'id': [1], 'city': ['Rome']})\n"
            "orders = pd.DataFrame({'id': [1, 1]})\ncfg = {}"
        )
        for code in ("cfg['city']", "os.environ['city']", "orders.apply(lambda row: cfg['city'])", "[][1]"):
            assert "DataFrame" not in block(code).output, code
        for code in ("people.loc['city']", "orders.loc['city']", "orders['id']['city']", "orders.xs('city')"):
            output = block(code).output
            assert "[people: a DataFrame" in output
            assert "merge" not in output, code
        for code in ("orders['city']", "orders.sort_values('city')", "pd.merge(people, orders, on='city')"):
            assert "as in orders.merge(people, " in block(code).output, code
        assert block("orders[:1]['city']").output.endswith("merge the two first]\n")

    def test_wrong_call_shows_the_signature(self, block: Session) -> None:
        block("def add(a: int, b: int = 2, *, sign: str = '+') -> int:\n    return a + b")
        for call in ("add(1, aggfunc=3)", "add()", "add(1, 2, 3)"):
            output = block(call).output
            assert output.endswith("[it is called as add(a, b=2, *, sign='+')]\n"), output
        block(
            "import inspect, os, time\nclass Slow:\n    def __repr__(self): time.sleep(60)\n"
            "class Last:\n    def __repr__(self): os._exit(5)\n"
            "def odd(a, b=Slow(), c=Last(), d=(), e=[1], f='x' * 10**6, g=2**9999, *, h=None, i=b'y'): pass"
        )
        output = block("odd()", 10).output
        text = "x" * 200
        assert output.endswith(f"odd(a, b=…, c=…, d=(), e=…, f='{text}'…, g=…, *, h=None, i=b'y')]\n")
        block(f"def long({', '.join(f'p{n}=None' for n in range(300))}): pass")
        assert "it is called" not in block("long(x=1)").output
        block("def logged(*args): pass\nlogged.__signature__ = inspect.signature(add)")
        assert block("logged(b=1)").output.endswith("[it is called as logged(*args)]\n")
        block("old = add\ndef add(x, y, z): pass\ndef load(x): pass")
        assert block("old()").output.endswith("[it is called as add(a, b=2, *, sign='+')]\n")
        assert block("[\n  'ä', add(1,\n  2)]").output.endswith("[it is called as add(x, y, z)]\n")
        for call in (
            "import json; json.load()",
            "raise TypeError('add() takes all')",
            "nothing_at_all()",
            "old(1, 'x')",
        ):
            assert "it is called" not in block(call).output
