"""What a guided model is told of a result that is empty, and that tables with gaps are none."""

from __future__ import annotations

import pytest

from libs.code_blocks.emptiness import shows_nothing
from libs.code_blocks.feedback import outputs
from libs.code_blocks.protocol import Execution, Refused
from libs.code_blocks.reader import Block, Reading

LOADED = """\
/data/reads.csv: 7 rows, 3 columns
date: day 2023-01-02 to 2023-01-15
number: lead 1 to 7; depth -1 to 30
text: probe (east, west)
missing: depth 1
"""


@pytest.mark.parametrize(
    "printed",
    [
        "[]",
        "rows: []",
        "names: 0 []",
        "result = []",
        "set()",
        "nan",
        "mean: nan",
        "np.float64(nan)",
        "rows: 0\nmean: nan",
        "first: NaT",
        "Series([], Name: fee, dtype: float64)",
        "Series([], dtype: int64)",
        "over:\nSeries([], Name: fee, dtype: float64)",
        "Empty DataFrame\nColumns: [day, fee]\nIndex: []",
        "late: Empty DataFrame\nColumns: [day, fee]\nIndex: []\nnumber: 0",
        "Empty DataFrame\nColumns: []\nIndex: []\n\n[0 rows x 25 columns]",
        "       day  fee\n0  2023-01   12\n1  2023-02  NaN\nmean: nan",
        "in_period: no row in 2031; day has 2023-01-02 to 2023-01-15\nmean: nan",
    ],
)
def test_an_empty_result_is_seen(printed: str) -> None:
    assert shows_nothing(printed)
    assert shows_nothing(LOADED + printed + "\n")


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "0",
        "rows: 0",
        "mean: 12.5",
        "mean: 12.5\nmean of the others: nan",
        "never: []\nboth: ['a', 'b']",
        "added: ['a']\nremoved: []",
        "   kind  fee\n0  east  NaN\n1  west  3.0",
        "kind\neast    NaN\nwest    3.0\nName: fee, dtype: float64",
        "kind\neast   NaN\nName: fee, dtype: float64",
        "fee\nNaN",
        "kind   east  west\nday\n1       NaN   2.0",
        "east 3.5\nwest nan",
        "lists: [[], [1]]",
        "[nan, 3.0]",
        "[[]]",
        '{"a": []}',
        "the word nan is Bengali bread",
        "changed: 2\nEmpty DataFrame\nColumns: [day]\nIndex: []",
        "   day  fee\n0  mon   12\nnever: []",
        "saved /results/empty.csv",
        "[]\n" + "x" * 10_000,
        "Name: , " * 1_000 + "[]",
    ],
)
def test_what_is_not_empty_is_left_alone(printed: str) -> None:
    assert not shows_nothing(printed)
    assert not shows_nothing(LOADED + printed + "\n")


def done(output: str, exit_code: int = 0) -> Execution:
    return Execution(language="python", code="x", output=output, exit_code=exit_code, seconds=0.0)


def told(*outcomes: Execution | Refused, guided: bool = True, repeats: int = 0) -> str:
    blocks = [Block("python", "x")] * len(outcomes)
    return outputs(blocks, outcomes, Reading(), repeats=repeats, limit=2_000, guided=guided)


def test_a_guided_model_is_told_to_check_the_condition() -> None:
    said = told(done(f"{LOADED}mean: nan\n"))
    assert "The result is empty" in said
    assert "print a few values" in said
    assert "If this answers the whole task" not in said


def test_what_came_last_counts() -> None:
    assert "The result is empty" not in told(done("[]"), done("sum: 3"))
    assert "The result is empty" in told(done("sum: 3"), done("[]"))
    assert "The result is empty" in told(done("[]"), Refused("no"))


def test_nothing_is_said_of_it_elsewhere() -> None:
    assert "If this answers the whole task" in told(done("sum: 3"))
    for said in (
        told(done("[]"), guided=False),
        told(done("[]"), repeats=1),
        told(done("[]", exit_code=1)),
    ):
        assert "The result is empty" not in said


def test_a_short_result_among_lines_about_files_is_said_once_more() -> None:
    def said(printed: str) -> str:
        ran = Execution(language="python", code="x", output=printed, exit_code=0, seconds=0)
        block = Block("python", "x")
        return outputs([block], [ran], Reading((block,)), repeats=0, limit=9_000, guided=True)

    about = "/data/a.csv: 310 rows, 2 columns\nnumber: n 1 to 310\nmissing: n 97\n"
    assert "The result is: lines: 80\n\nIf this answers the whole task" in said(f"{about}lines: 80\n")
    for printed in (
        "lines: 80\n",
        f"{about}saved /results/a.png\nday\n2024-05    7\n",
        about,
        about + "x\n" * 9,
        f"{about}a: {'y' * 500}\n",
    ):
        assert "The result is" not in said(printed)
