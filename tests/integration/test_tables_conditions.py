"""`skills.tables` inside the container: rows by a condition, calculations for columns, other names."""

from __future__ import annotations

import pytest

from libs.backends.docker import DockerExecutionBackend

pytestmark = pytest.mark.docker

TABLE = """
from skills.tables import load, per_period, totals, where
names = ("town", "unit price", "kg", "when", "weight", "open", "a-b")
rows = [
    ("Oslo", 4, 2, "2024-03-01", "3 kg", True, 1),
    ("Bergen", 9, 3, "2024-04-02", "5 kg", False, 2),
    ("Skien", 6, 1, None, "n/a", True, 3),
]
t = load([dict(zip(names, row)) for row in rows])
print("--")
"""


def run(backend: DockerExecutionBackend, code: str) -> str:
    result = backend.sandbox.run_python(TABLE + code, session="conditions", timeout=60)
    return (result.output + result.stderr).partition("--\n")[2]


@pytest.mark.parametrize(
    ("condition", "towns"),
    [
        ('"kg > 1"', "Oslo Bergen"),
        ("\"kg > 1 and town == 'Oslo'\"", "Oslo"),
        ("\"kg = 1 or town = 'Oslo'\"", "Oslo Skien"),
        ('"unit price / kg < 4"', "Oslo Bergen"),
        ('"unit price*kg>=8 AND NOT kg == 3"', "Oslo"),
        ('"(unit price - 4) * 2 > kg and -kg < -1"', "Bergen"),
        ("\"town in ['Oslo', 'Skien'] and kg % 2 == 1\"", "Skien"),
        ("\"town not in ('Oslo', 'Skien')\"", "Bergen"),
        ("\"when >= '2024-04-01'\"", "Bergen"),
        ("\"'2024-03-01' <= when < '2024-04-02'\"", "Oslo"),
        ('"weight > 3"', "Bergen"),
        ('"3 < weight"', "Bergen"),
        ('"1 < kg <= 2"', "Oslo"),
        ('"open"', "Oslo Skien"),
        ('"not open"', "Bergen"),
        ('"`a-b` == 3"', "Skien"),
        ('"a-b == 3"', "Skien"),
        ('"`Unit Price` > 8"', "Bergen"),
        ("\"town == 'kg > 1'\"", ""),
        ('"kg", ">", 1', "Oslo Bergen"),
        ('"town", "Oslo"', "Oslo"),
        ('"town", ["Oslo", "Skien"]', "Oslo Skien"),
        ('"town", "in", ["Oslo", "Skien"]', "Oslo Skien"),
        ('"kg", lambda kg: kg > 1', "Oslo Bergen"),
        ('t["kg"] > 1', "Oslo Bergen"),
        ('lambda table: table["kg"] > 1', "Oslo Bergen"),
        ('lambda row: row["kg"] > 1', "Oslo Bergen"),
    ],
)
def test_rows_by_a_condition(backend: DockerExecutionBackend, condition: str, towns: str) -> None:
    printed = run(backend, f"print(*where(t, {condition})['town'])").splitlines()
    assert printed[0] == f"where: {len(towns.split())} of 3 rows"
    assert printed[-1] == towns


LISTS = """
films = load([
    {"film": "A", "kinds": ["red", "new"], "day": "2024-03-01"},
    {"film": "B", "kinds": ["new"], "day": "2024-04-01"},
    {"film": "C", "kinds": [], "day": "2024-04-09"},
    {"film": "D", "kinds": None, "day": None},
])
print("==")
"""


@pytest.mark.parametrize(
    ("condition", "films"),
    [
        ('"kinds", "red"', "A"),
        ('"kinds", ["red", "new"]', "A B"),
        ("\"kinds == 'new'\"", "A B"),
        ("\"kinds != 'new'\"", "C D"),
        ("\"'new' in kinds and film == 'B'\"", "B"),
        ("\"'new' not in kinds\"", "C D"),
        ("\"kinds in ['red', 'old']\"", "A"),
        ("\"'A' in film\"", "A"),
        ('"kinds", "blue"', ""),
    ],
)
def test_a_value_in_lists(backend: DockerExecutionBackend, condition: str, films: str) -> None:
    printed = run(backend, LISTS + f"print(*where(films, {condition})['film'])").partition("==\n")[2]
    assert printed.splitlines()[-1] == films


def test_the_only_column_of_dates_is_meant_where_there_is_no_other(backend: DockerExecutionBackend) -> None:
    code = LISTS + "from skills.tables import in_period\n"
    printed = run(backend, code + "print(*in_period(films, 'date', '2024-04')['film'])").partition("==\n")[2]
    assert printed.splitlines()[0] == (
        "in_period: there is no column 'date'; day is taken, the only one of dates"
    )
    assert printed.splitlines()[-1] == "B C"
    printed = run(backend, code + "films['other'] = films['day']\nin_period(films, 'date', '2024-04')")
    assert "there is no column 'date'; the columns are: film, kinds, day, other" in printed


def test_where_no_row_is_left_the_values_are_shown(backend: DockerExecutionBackend) -> None:
    printed = run(backend, "_ = where(t, \"town == 'oslo'\")")
    assert printed == "where: 0 of 3 rows\nwhere: town holds 'Oslo', 'Bergen', 'Skien'\n"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ('where(t, "prize > 3")', "where: there is no column 'prize'; the columns are: town"),
        ('where(t, "kg >")', "where: 'kg >' cannot be read. Write such as"),
        ('where(t, "kg + 1")', "where: give a condition, such as"),
        ("where(t, \"kg and town == 'Oslo'\")", "is no condition"),
        ("where(t, \"__import__('os').system('true')\")", "cannot be read"),
        ('where(t, "kg.__class__ == 1")', "cannot be read"),
        ('where(t, "[kg for kg in kg]")', "cannot be read"),
        ('where(t, "(" * 900)', "cannot be read"),
        ('where(t, "kg > 1 or " * 200)', "1,000 characters at most"),
        ('where(t, "town > 3")', "is no number but text"),
        ('where(t, "kg in 3")', "`in` stands between a column and a list"),
        ('where(t, "kg", "~", 3)', "'~' is no comparison"),
        ("where([1], 'kg > 1')", "the first argument is a table"),
        ('totals(t, "town", "kg", "a-b")', "write such as 'kg / a-b' as the value"),
        ('totals(t, "town", "kg / prize")', "there is no column 'prize'"),
        ('totals(t, "town", "kg / town")', "is no number but text"),
    ],
)
def test_what_cannot_be_read_says_what_can(backend: DockerExecutionBackend, code: str, message: str) -> None:
    assert message in run(backend, code)


def test_a_value_may_be_a_calculation(backend: DockerExecutionBackend) -> None:
    assert run(backend, 'print(totals(t, "town", "unit price * kg").to_dict())') == (
        "{'Bergen': 27, 'Oslo': 8, 'Skien': 6}\n"
    )
    printed = run(backend, 'print(per_period(t, "when", "unit price/kg", how="mean").to_dict())')
    assert printed.endswith("{'2024-03': 2.0, '2024-04': 3.0}\n")
    named = run(backend, 'print(totals(t, "town", "a-b").iloc[0], totals(t, "town", "a - kg / 2"))')
    assert "there is no column 'a'" in named, "a column is what is called so, before it is a calculation"


def test_count_in_place_of_a_column_counts_rows(backend: DockerExecutionBackend) -> None:
    code = 'print(totals(t, "open", "count", how="sum").to_dict(), per_period(t, "when", "size").to_dict())'
    assert run(backend, code).endswith("{True: 2, False: 1} {'2024-03': 1, '2024-04': 1}\n")
    code = 't["count"] = t["kg"]\nprint(totals(t, "open", "count").to_dict())'
    assert run(backend, code) == "{False: 3, True: 3}\n"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("filter", "where"),
        ("read_csv", "load"),
        ("groupby", "totals"),
        ("join", "merge"),
        ("newest", "latest"),
    ],
)
def test_a_function_answers_to_the_name_it_has_elsewhere(
    backend: DockerExecutionBackend, name: str, meant: str
) -> None:
    code = f"from skills.tables import {name}, {meant}\nprint({name} is {meant})"
    assert run(backend, code) == "True\n"


def test_what_pandas_has_can_be_imported_and_what_nobody_has_cannot(backend: DockerExecutionBackend) -> None:
    code = "from skills.tables import concat, pd, to_datetime\nprint(concat is pd.concat)"
    assert run(backend, code) == "True\n"
    assert "ImportError: cannot import name 'nothing_of_it'" in run(
        backend, "from skills.tables import nothing_of_it"
    )
