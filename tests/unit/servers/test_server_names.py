"""Names that a server chooses become Python names that no two things share and nothing else uses."""

from __future__ import annotations

import builtins
import keyword
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.servers.stubs import declaration, python_name
from libs.servers.stubs.python_names import Names

anything = st.text(st.characters(exclude_categories=()), max_size=80)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("search_issues", "search_issues"),
        ("perPage", "perPage"),
        ("resolve-library-id", "resolve_library_id"),
        ("files/read.text", "files_read_text"),
        ("from", "from_"),
        ("Any", "Any_"),
        ("__init__", "init__"),
        ("2fa", "server_2fa"),
        ("", "server"),
        ("搜索", "server"),
        ("p\N{CYRILLIC SMALL LETTER A}ypal", "p_ypal"),
        ("ｒｅａｄ", "read"),
        ("straße ñ", "stra_e_n"),
        ("a\n\x00\ud800b", "a_b"),
        ("x" * 1_000_000, "x" * 60),
    ],
)
def test_a_name_becomes_an_identifier(text: str, name: str) -> None:
    assert python_name(text) == name


@given(st.lists(anything, max_size=30))
def test_names_of_one_scope_are_different_identifiers(texts: list[str]) -> None:
    avoided = set(dir(builtins))
    names = Names({"own"}).take_all(texts, "tool", avoided)
    assert len(set(names)) == len(texts)
    assert [name for name in names if not re.fullmatch(r"[A-Za-z][0-9A-Za-z_]*", name)] == []
    assert avoided.union(keyword.kwlist, {"own"}).isdisjoint(names)


def test_a_name_that_needs_no_change_is_kept_whatever_else_there_is() -> None:
    texts = ["a-b", "a b", "a_b", "a_b_2"]
    assert Names().take_all(texts, "tool") == ["a_b_4", "a_b_3", "a_b", "a_b_2"]
    assert Names().take_all(texts[::-1], "tool") == ["a_b_2", "a_b", "a_b_3", "a_b_4"]


def test_a_declaration_is_one_line_that_shows_every_character() -> None:
    assert declaration("github", "create_issue") == "# uses: github.create_issue"
    assert declaration("git.hub", "a-b/c") == "# uses: git.hub.a-b/c"
    assert declaration("x", "\N{CYRILLIC SMALL LETTER A} \n\ud800%") == "# uses: x.%D0%B0%20%0A%ED%A0%80%25"


@given(anything, anything)
def test_declarations_of_two_tools_are_different_lines(one: str, other: str) -> None:
    lines = [declaration("x", one), declaration("x", other)]
    assert all(line.isascii() and len(line.splitlines()) == 1 for line in lines)
    assert (lines[0] == lines[1]) == (one == other)
