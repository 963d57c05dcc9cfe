"""`skills.tables` inside the container: groups, periods and pictures of a table."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.integration.skills.table_session import Session

pytestmark = pytest.mark.docker


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("'region'", [["North", "(missing)", "South"], [3, 2, 1]]),
        ("'region', 'amount'", [["North", "(missing)", "South"], [1005.75, 8, None]]),
        ("'region', 'qty', 'mean'", [["(missing)", "South", "North"], [5, 3, 2.3333333333333]]),
        (
            "'region', 'day', 'max'",
            [["North", "South", "(missing)"], ["2024-04-01 00:00:00", "2024-02-29 00:00:00", None]],
        ),
        ("'note', 'region', 'nunique'", [["x", "y", "(missing)"], [1, 1, 1]]),
        (
            "['region', 'note']",
            [[["North", "x"], ["(missing)", "x"], ["South", "y"], ["North", "(missing)"]], [2, 2, 1, 1]],
        ),
        ("' Region ', 'AMOUNT', top=1", [["North"], [1005.75]]),
    ],
)
def test_totals(orders: Session, arguments: str, expected: list[Any]) -> None:
    assert orders.show(f"totals(table, {arguments})") == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("'amount'", [["2024-01", "2024-02", "2024-03", "2024-04"], [1002.75, None, 0, 3]]),
        ("", [["2024-01", "2024-02", "2024-03", "2024-04"], [2, 1, 0, 1]]),
        ("'qty', how='mean'", [["2024-01", "2024-02", "2024-03", "2024-04"], [1.5, 3, None, 4]]),
    ],
)
def test_totals_over_time(orders: Session, arguments: str, expected: list[Any]) -> None:
    assert orders.show(f"per_period(table, 'day', {arguments})") == expected


def test_weeks_and_hours_are_text_without_gaps(orders: Session) -> None:
    weeks, counts = orders.show("per_period(table, 'day', every='week')")
    assert (weeks[0], weeks[-1], len(weeks), sum(counts)) == ("2024-W01", "2024-W14", 14, 4)
    orders.run("times = pd.DataFrame({'t': ['2024-12-30T23:10:00Z', '2024-12-31T01:50:00Z']})")
    assert orders.show("per_period(times, 't', every='hour')") == [
        *(["2024-12-30 23:00", "2024-12-31 00:00", "2024-12-31 01:00"], [1, 0, 1])
    ]
    assert orders.show("per_period(times, 't', every='week')") == [["2025-W01"], [2]]
    assert orders.show("per_period(times[:0].assign(t=pd.to_datetime([])), 't')") == [[], []]


def test_errors_name_the_choices(orders: Session) -> None:
    for code, message in (
        ("totals(table, 'nope')", "no column 'nope'; the columns are: id, day, region, amount, qty, note"),
        ("totals(table, 'regions')", "did you mean 'region'?"),
        (
            "totals(table, 'region', 'qty', 'mode')",
            "how is one of sum, mean, median, min, max, count",
        ),
        ("totals(table, 'region', 'qty', top=0)", "top is how many groups to keep, 1 or more, not 0"),
        (
            "totals(table, 'region', 'note')",
            "is not a number but text: 'x', 'y', 'x'; columns with numbers",
        ),
        (
            "totals('/data/case.csv', 'region')",
            "the first argument is a table, as load(path) returns it",
        ),
        ("in_period(table, 'note', '2024')", "is not a date but 'x', 'y', 'x'; columns with dates: day"),
        ("per_period(table, 'day', every='decade')", "every is one of hour, day, week, month, quarter, year"),
        ("plot(table.region, 'x.png')", "region has no numbers; give a Series"),
        ("plot(totals(table, 'region'), '../x.png')", "leads out of /results"),
        ("plot(totals(table[:0], 'region', 'qty'), 'x.png')", "there is nothing to draw"),
        ("plot(5, 'x.png')", "give a Series, such as totals(table, 'region', 'amount')"),
    ):
        assert message in orders.error(code)


def test_text_column_is_converted_when_half_is_readable(session: Session) -> None:
    session.run("plain = pd.DataFrame({'d': ['2024-01-05', 'soon', '2024-02-01'], 'v': ['$1', '2', 'x']})")
    assert session.run("print(totals(plain, 'd', 'v').sum(), len(in_period(plain, 'd', '2024')))") == (
        "totals: could not be read, now missing: v 'x'\n"
        "in_period: could not be read, now missing: d 'soon'\n"
        "in_period: 1 of 3 rows without d are left out\n3.0 2\n"
    )


@pytest.mark.parametrize(
    ("series", "name", "options", "kind"),
    [
        ("{'x': 1, 'y': None}", "sub/d.png", ", size=(1200, 400)", "PNG image data, 1200 x 400"),
        ("table[['amount', 'qty']]", "results/e.png", ", 'line', color='red'", "PNG image data, 800 x 500"),
        ("table.set_index('day').qty", "/results/g.jpg", ", xlabel='', ylabel='$ _{^'", "JPEG image data"),
    ],
)
def test_pictures(orders: Session, series: str, name: str, options: str, kind: str) -> None:
    path = f"/results/{name.removeprefix('/').removeprefix('results/')}"
    assert orders.run(f"_ = plot({series}, {name!r}{options})").endswith(f"saved {path}\n")
    assert kind in orders.backend.execute(f"file --brief {path}").output


def test_picture_has_its_labels(orders: Session) -> None:
    code = "print(plot(totals(table, 'region', 'amount'), 'l.svg', title='By region', ylabel='EUR'))"
    assert orders.run(code) == "region: counted as one: North = north\nsaved /results/l.svg\n/results/l.svg\n"
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", orders.backend.execute("cat /results/l.svg").output)
    assert {"By region", "EUR", "region", "North", "South", "(missing)"} <= set(texts)


def test_rows_of_a_period_in_other_columns(session: Session) -> None:
    session.run(
        "other = pd.DataFrame({'text': ['13/01/2024', '01/02/2024', None], 'year': [2023, 2024, None],"
        " 'zone': pd.to_datetime(['2024-01-01T00:30+02:00', '2024-01-02T00:00Z', None], utc=True),"
        " 'n': [1, 2, 3]})"
    )
    assert session.show("in_period(other, 'text', '2024-02').n.tolist()") == [2]
    assert session.show("in_period(other, 'year', '2024').n.tolist()") == [2]
    assert session.show("in_period(other, 'zone', '2023').n.tolist()") == [1]
    assert session.show("in_period(other.iloc[::-1], 'text', '2024').n.tolist()") == [2, 1]


def test_period_without_rows_prints_the_range(orders: Session) -> None:
    assert orders.run("print(len(in_period(table, 'day', '2023')))") == (
        "in_period: 2 of 6 rows without day are left out\n"
        "in_period: no row in 2023; day has 2024-01-05 to 2024-04-01\n0\n"
    )


def test_row_labels_may_repeat(orders: Session) -> None:
    orders.run("twice = pd.concat([table, table]).iloc[::-1]")
    assert orders.show("per_period(twice, 'day', 'qty', 'year')") == [["2024"], [20]]
    assert orders.show("totals(twice, 'region', 'qty', top=1)") == [["(missing)"], [20]]
    assert orders.show("in_period(twice, 'day', '2024-02').id.tolist()") == [3, 3]
