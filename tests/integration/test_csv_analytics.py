"""csv-analytics inside the container: every command of its SKILL.md, exact figures, and hostile files."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

ROOT = Path(__file__).parents[2]
SKILL = ROOT / "skills" / "csv-analytics"
SCRIPTS = "/skills/csv-analytics/scripts"
SALES = ROOT / "workspace" / "data" / "sales.csv"

pytestmark = pytest.mark.docker


class Response(Protocol):
    output: str
    exit_code: int | None


class Backend(Protocol):
    def execute(self, command: str) -> Response: ...
    def upload_files(self, files: list[tuple[str, bytes]]) -> list[Any]: ...


def commands() -> list[str]:
    text = (SKILL / "SKILL.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


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


@pytest.mark.parametrize("command", commands())
def test_every_command_of_the_skill_works(
    backend: Backend, sales: list[dict[str, str]], command: str
) -> None:
    result = answer(backend, command)
    assert result["rows"] == len(sales)
    if "out" in result:
        assert result["out"].startswith("/results/")
        kind = backend.execute(f"file --brief {result['out']}").output
        assert kind.startswith("PNG image data") if result["out"].endswith(".png") else "text" in kind


def test_every_script_explains_itself_and_is_named_in_the_skill(backend: Backend) -> None:
    text = (SKILL / "SKILL.md").read_text(encoding="utf-8")
    shared = {"command", "table"}
    scripts = {path.stem for path in (SKILL / "scripts").glob("*.py")} - shared
    assert scripts == {"summary", "filter", "groupby", "timeseries", "plot"}
    for script in scripts:
        assert f"{SCRIPTS}/{script}.py" in text
        response = backend.execute(f"python {SCRIPTS}/{script}.py --help")
        assert response.exit_code == 0
        assert "usage:" in response.output


def test_summary_counts_what_is_missing_and_odd(backend: Backend, sales: list[dict[str, str]]) -> None:
    columns = run(backend, "summary", "/data/sales.csv")["columns"]
    revenue = [row["revenue"] for row in sales]
    assert columns["revenue"]["missing"] == revenue.count("N/A")
    assert columns["revenue"]["unparsed"]["count"] == sum("$" in value for value in revenue)
    assert columns["customer"]["missing"] == sum(not row["customer"] for row in sales)
    assert columns["order_date"]["kind"] == "date"
    assert columns["units"]["sum"] == sum(int(row["units"]) for row in sales)


def test_groupby_adds_up_what_plain_python_adds_up(backend: Backend, sales: list[dict[str, str]]) -> None:
    result = run(backend, "groupby", "/data/sales.csv", "--by region --column revenue --agg sum --strip '$,'")
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
        ("day", {"2023-12-31": 1, "2024-01-01": 2}),
        ("week", {"2023-12-25/2023-12-31": 1, "2024-01-01/2024-01-07": 2}),
        ("month", {"2023-12": 1, "2024-01": 2, "2024-02": None, "2024-03": 4}),
        ("quarter", {"2023Q4": 1, "2024Q1": 6}),
        ("year", {"2023": 1, "2024": 6}),
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


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("náme;v\nä;1\n".encode(), None),
        ("\ufeffnáme,v\nä,1\n".encode(), "utf-8-sig"),
        ("náme\tv\nä\t1\n".encode("latin-1"), "cp1252"),
        (b"n\xe1me|v\n\x81\xe4|1\n", "latin-1"),
        ("náme,v\r\nä,1\r\n".encode("utf-16"), "utf-16"),
    ],
)
def test_encodings_and_delimiters(
    backend: Backend, put: Callable[[str | bytes], str], content: bytes, encoding: str | None
) -> None:
    result = run(backend, "summary", put(content))
    assert list(result["columns"]) == ["náme", "v"]
    assert result.get("encoding") == encoding
    assert result["columns"]["v"]["sum"] == 1


def test_numbers_that_are_none_are_null_and_reported(
    backend: Backend, put: Callable[[str | bytes], str]
) -> None:
    path = put('g,v\na,inf\na,NaN\na,1e999\nb,"1,000"\nb,€5\nb,2\n')
    result = run(backend, "groupby", path, "--by g --column v --agg sum,mean,min --sort key")
    assert result["result"] == [
        {"g": "a", "rows": 3, "sum": None, "mean": None, "min": None},
        {"g": "b", "rows": 3, "sum": 2.0, "mean": 2.0, "min": 2.0},
    ]
    assert result["unparsed"]["v"]["count"] == 4
    assert set(result["unparsed"]["v"]["examples"]) == {"inf", "1e999", "1,000", "€5"}


def test_decimal_comma(backend: Backend, put: Callable[[str | bytes], str]) -> None:
    result = run(backend, "summary", put("v;w\n1.234,50;x\n2,5;y\n"), "--decimal , --strip .")
    assert result["columns"]["v"]["sum"] == 1237


def test_lines_with_too_many_fields_are_counted(backend: Backend, put: Callable[[str | bytes], str]) -> None:
    result = run(backend, "groupby", put("a,b\n1,2\n3,4,5\n6,7\n"), "--by a")
    assert (result["rows"], result["skipped_lines"]) == (2, 1)


@pytest.mark.parametrize("script", ["summary", "filter", "groupby", "timeseries", "plot"])
def test_wrong_use_exits_1_and_says_what_to_do(
    backend: Backend, put: Callable[[str | bytes], str], script: str
) -> None:
    assert "usage:" in refusal(backend, script, "")
    assert "usage:" in refusal(backend, script, "/data/case.csv --no-such-option")
    options = {
        "summary": "--where nope=1",
        "filter": "--column nope --top 1",
        "groupby": "--by nope",
        "timeseries": "--date nope",
        "plot": "--kind bar --x nope",
    }[script]
    path = put("region,v\nNorth,1\n")
    assert refusal(backend, script, f"{path} {options}") == (
        f"error: no column 'nope' in {path}; it has: region, v\n"
    )
    assert refusal(backend, script, f"/data/none.csv {options}") == "error: no such file: /data/none.csv\n"
    assert refusal(backend, script, f"/data {options}") == "error: not a file: /data\n"
    assert "is empty" in refusal(backend, script, f"{put('')} {options}")


@pytest.mark.parametrize(
    ("script", "options", "message"),
    [
        ("timeseries", "--date name", "no date could be read in column 'name'"),
        ("plot", "--kind scatter --x v", "scatter needs --y"),
        ("plot", "--kind hist --x name", "no row has numbers in name"),
        ("filter", "--column v", "give one of --above, --below, --top, --bottom"),
        ("filter", "--column v --top 0", "must be at least 1"),
        ("filter", "--column v --top 1 --out /data/case.csv", "--out is the file that is read"),
        ("groupby", "--by name --column v --agg median", "no aggregate 'median'"),
        ("groupby", "--by name --where v=9", "no rows to aggregate"),
        ("summary", "--where v", "--where needs COLUMN=VALUE"),
    ],
)
def test_requests_that_cannot_be_met(
    backend: Backend, put: Callable[[str | bytes], str], script: str, options: str, message: str
) -> None:
    assert message in refusal(backend, script, f"{put('name,v' + chr(10) + 'x,1' + chr(10))} {options}")


@pytest.mark.parametrize(
    ("content", "options", "drawn"),
    [
        ("x,y\n10,1\n2,3\n,5\n", "--kind line --x x --y y", 2),
        ("x,y\nb,1\na,3\n,5\n", "--kind bar --x x --y y --limit 2", 2),
        ("x,y\n01/02/2024,1\n31/03/2024,3\n", "--kind bar --freq month --x x --y y", 2),
        ("x,y\n$1_{$,1\n$^,2\n", "--kind bar --x x --title '$\\frac{'", 2),
        ("x,y\n1,1\n2,odd\n3,\n", "--kind scatter --x x --y y", 1),
        ("x,y\n1,1\n2,2\n", "--kind scatter --x x --y x", 2),
    ],
)
def test_plots_of_odd_columns(
    backend: Backend, put: Callable[[str | bytes], str], content: str, options: str, drawn: int
) -> None:
    result = run(backend, "plot", put(content), f"{options} --out /tmp/plots/odd.png")
    assert result["drawn"] == drawn
    assert backend.execute("file --brief /tmp/plots/odd.png").output.startswith("PNG image data")


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
