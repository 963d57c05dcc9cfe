"""csv-analytics inside the container: each command of its texts, exact figures, and broken files."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.support.skill_texts import commands, refusals

ROOT = Path(__file__).parents[3]
SCRIPTS = "/skills/csv-analytics/scripts"
SALES = ROOT / "workspace" / "data" / "sales.csv"

pytestmark = pytest.mark.docker


class Response(Protocol):
    output: str
    exit_code: int | None


class Backend(Protocol):
    def execute(self, command: str) -> Response: ...
    def upload_files(self, files: list[tuple[str, bytes]]) -> list[Any]: ...


@pytest.fixture
def put(backend: Backend) -> Callable[[str | bytes], str]:
    """Write a CSV file into the sandbox; returns its path."""

    def put(content: str | bytes) -> str:
        path = "/workspace/data/case.csv"
        data = content.encode() if isinstance(content, str) else content
        (result,) = backend.upload_files([(path, data)])
        assert result.error is None
        return path

    return put


@pytest.fixture
def sales(backend: Backend) -> list[dict[str, str]]:
    """The sample, in the sandbox as /data/sales.csv, and its rows read without pandas."""
    (result,) = backend.upload_files([("/workspace/data/sales.csv", SALES.read_bytes())])
    assert result.error is None
    with SALES.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def answer(backend: Backend, command: str) -> dict[str, Any]:
    response = backend.execute(command)
    assert response.exit_code == 0, response.output
    parsed: dict[str, Any] = json.loads(response.output, parse_constant=pytest.fail)
    return parsed


def run(backend: Backend, script: str, path: str, options: str = "") -> dict[str, Any]:
    return answer(backend, f"python {SCRIPTS}/{script}.py {path} {options}")


def refusal(backend: Backend, script: str, arguments: str) -> str:
    # stdout is thrown away: what is left is stderr.
    response = backend.execute(f"python {SCRIPTS}/{script}.py {arguments} 2>&1 >/dev/null")
    assert response.exit_code == 1, response.output
    assert "Traceback" not in response.output
    return response.output


def number(text: str) -> float:
    return float(text.replace("$", "").replace(",", "")) if text not in ("", "N/A") else math.nan


@pytest.mark.parametrize("command", commands("csv-analytics"))
def test_every_command_of_the_skill_works(
    backend: Backend, sales: list[dict[str, str]], command: str
) -> None:
    result = answer(backend, command)
    assert result["rows"] == len(sales)
    if "out" in result:
        assert result["out"].startswith("/results/")
        kind = backend.execute(f"file --brief {result['out']}").output
        assert kind.startswith("PNG image data") if result["out"].endswith(".png") else "text" in kind


def test_summary_counts_missing_and_odd_values(backend: Backend, sales: list[dict[str, str]]) -> None:
    columns = run(backend, "summary", "/data/sales.csv")["columns"]
    revenue = [row["revenue"] for row in sales]
    assert columns["revenue"]["missing"] == revenue.count("N/A")
    assert "unparsed" not in columns["revenue"]  # $18.90 is a number
    assert columns["customer"]["missing"] == sum(not row["customer"] for row in sales)
    assert columns["order_date"]["kind"] == "date"
    assert columns["units"]["sum"] == sum(int(row["units"]) for row in sales)


def test_groupby_agrees_with_plain_python(backend: Backend, sales: list[dict[str, str]]) -> None:
    result = run(backend, "groupby", "/data/sales.csv", "--by region --column revenue --agg sum")
    assert result["unparsed"] == {}
    expected: dict[str, float] = {}
    for row in sales:
        value = number(row["revenue"])
        expected[row["region"]] = expected.get(row["region"], 0) + (0 if math.isnan(value) else value)
    assert {row["region"]: row["sum"] for row in result["result"]} == pytest.approx(expected)
    assert [row["region"] for row in result["result"]] == sorted(expected, key=lambda key: -expected[key])


def test_filter_top_and_bottom(backend: Backend, put: Callable[[str | bytes], str]) -> None:
    path = put("name,v\n" + "".join(f"n{i},{(i * 37) % 100}\n" for i in range(100)))
    result = run(backend, "filter", path, "--column v --top 3 --bottom 2 --columns v")
    assert [row["v"] for row in result["top"]] == [99, 98, 97]
    assert [row["v"] for row in result["bottom"]] == [0, 1]
    result = run(backend, "filter", path, "--column v --above 10 --below 20 --limit 4 --out /tmp/out.csv")
    assert (result["matching"], len(result["rows_shown"])) == (9, 4)
    assert backend.execute("wc -l < /tmp/out.csv").output.strip() == "10"


@pytest.mark.parametrize(
    ("frequency", "expected"),
    [
        ("week", {"2023-12-25/2023-12-31": 1, "2024-01-01/2024-01-07": 2}),
        ("month", {"2023-12": 1, "2024-01": 2, "2024-02": None, "2024-03": 4}),
    ],
)
def test_time_buckets_without_gaps(
    backend: Backend, put: Callable[[str | bytes], str], frequency: str, expected: dict[str, float | None]
) -> None:
    path = put("d,v\n2023-12-31,1\n2024-01-01,2\n2024-03-05,4\n,8\nsoon,16\n")
    result = run(backend, "timeseries", path, f"--date d --freq {frequency} --column v")
    found = {row["bucket"]: row["sum"] for row in result["result"]}
    assert found.items() >= expected.items()
    assert result["unparsed"] == {"d": {"count": 1, "examples": ["soon"]}}


def test_values_that_are_no_number_are_reported(backend: Backend, put: Callable[[str | bytes], str]) -> None:
    path = put('g,v\na,inf\na,NaN\na,1e999\nb,"1,000"\nb,€5\nb,2\nc,1,1\n')
    result = run(backend, "groupby", path, "--by g --column v --agg sum,mean,min --sort key")
    assert result["result"] == [
        {"g": "a", "rows": 3, "sum": None, "mean": None, "min": None},
        {"g": "b", "rows": 3, "sum": 1007.0, "mean": 335.666666667, "min": 2.0},
    ]
    assert result["skipped_lines"] == 1
    assert result["unparsed"]["v"]["count"] == 2
    assert set(result["unparsed"]["v"]["examples"]) == {"inf", "1e999"}


def test_wrong_use_exits_with_1(backend: Backend, put: Callable[[str | bytes], str]) -> None:
    path = put("name,v\nx,1\n")
    cases = (
        ("summary", "", "usage:"),
        ("plot", f"{path} --no-such-option", "usage:"),
        ("summary", f"{path} --where nope=1", f"error: no column 'nope' in {path}; it has: name, v\n"),
        ("summary", f"{path} --where v", "--where needs COLUMN=VALUE"),
        ("summary", "/data/none.csv", "error: [Errno 2] No such file or directory: '/data/none.csv'\n"),
        ("timeseries", f"{path} --date name", "no date could be read in column 'name'"),
        ("plot", f"{path} --kind scatter --x v", "scatter needs --y"),
        ("filter", f"{path} --column v", "give one of --above, --below, --top, --bottom"),
        ("filter", f"{path} --column v --top 1 --out /data/case.csv", "--out is the file that is read"),
        ("groupby", f"{path} --by name --column v --agg median", "no aggregate 'median'"),
        ("groupby", f"{path} --by name --where v=9", "no rows to aggregate"),
    )
    calls = [(f"{SCRIPTS}/{script}.py", *arguments.split()) for script, arguments, _ in cases]
    for said, (*_, message) in zip(refusals(backend, calls), cases, strict=True):
        assert message in said
    assert "is empty" in refusal(backend, "summary", put(""))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("content", "options", "drawn"),
    [
        ("x,y\n10,1\n2,3\n,5\n", "--kind line --x x --y y", 2),
        ("x,y\n$1_{$,1\n$^,2\n", "--kind bar --x x --title '$\\frac{'", 2),
        ("x,y\n1,1\n2,odd\n3,\n", "--kind scatter --x x --y y", 1),
    ],
)
def test_plots_of_odd_columns(
    backend: Backend, put: Callable[[str | bytes], str], content: str, options: str, drawn: int
) -> None:
    result = run(backend, "plot", put(content), f"{options} --out /tmp/plots/odd.png")
    assert result["drawn"] == drawn
    assert backend.execute("file --brief /tmp/plots/odd.png").output.startswith("PNG image data")


@pytest.mark.thorough
def test_a_million_rows_in_bounded_memory(backend: Backend) -> None:
    backend.execute(
        "python -c \"print('id,g,v')\n"
        "for i in range(1_000_000): print(f'{i},{i % 7},{i % 1000}')\" > /workspace/data/million.csv"
    )
    try:
        measured = (
            "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)"
        )
        for script, options in (
            ("summary", ""),
            ("filter", "--column v --above 998 --top 2"),
            ("groupby", "--by g --column v"),
            ("plot", "--kind hist --x v --out /tmp/hist.png"),
        ):
            command = f"python {SCRIPTS}/{script}.py /data/million.csv {options}"
            response = backend.execute(f'python -c "{measured}" {command} 2>&1 >/tmp/answer.json')
            assert response.exit_code == 0, response.output
            assert int(response.output) < 300_000  # kilobytes
            assert answer(backend, "cat /tmp/answer.json")["rows"] == 1_000_000
    finally:
        backend.execute("rm -f /workspace/data/million.csv /tmp/answer.json /tmp/hist.png")
