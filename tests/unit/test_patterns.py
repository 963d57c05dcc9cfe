"""File name patterns mean what they mean elsewhere, and none takes for ever."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wcmatch import glob as reference

from libs.sandbox.patterns import PatternError, compile_pattern

FLAGS = reference.GLOBSTAR | reference.BRACE | reference.FORCEUNIX | reference.CASE
PATIENCE = 2.0


def matches(pattern: str, path: str) -> bool:
    return compile_pattern(pattern).match(path) is not None


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.csv", ["a.csv", "deep/er/a.csv"], ["a.csv.gz", "csv", ".a.csv", "a.csv/b", "a.CSV"]),
        ("a", ["a", "b/a"], ["aa", "a/b", "A"]),
        ("/*.csv", ["a.csv"], ["deep/a.csv"]),
        ("deep/*.csv", ["deep/a.csv"], ["a.csv", "x/deep/a.csv", "deep/er/a.csv"]),
        ("**/*.csv", ["a.csv", "b/a.csv", "b/c/a.csv"], ["a.txt", "b/.a.csv", ".b/a.csv"]),
        ("/**/*.csv", ["a.csv", "b/c/a.csv"], ["a.txt"]),
        ("b/**", ["b/a", "b/c/d"], ["a", "b", "b/.a", "b/.c/d"]),
        ("b/**/a", ["b/a", "b/c/a", "b/c/d/a"], ["a", "b/c/.d/a", "xb/a"]),
        ("**", ["a", "b/a"], [".a", ".b/a"]),
        ("**/**/a", ["a", "b/a", "b/c/a"], ["b"]),
        (".*", [".a", "b/.a"], ["a", "b/a"]),
        (".git/**", [".git/config", ".git/a/b"], ["git/config", ".git/.hidden"]),
        ("**/.env", [".env", "a/.env"], ["env", ".a/.env"]),
        ("?.txt", ["a.txt", "ü.txt", "😀.txt"], ["ab.txt", ".txt", "/.txt"]),
        ("[abc].txt", ["a.txt", "x/b.txt"], ["d.txt", "ab.txt"]),
        ("[a-c0-9].txt", ["b.txt", "7.txt"], ["d.txt", "-.txt"]),
        ("[!a].txt", ["b.txt"], ["a.txt", "ab.txt"]),
        ("[^a].txt", ["b.txt"], ["a.txt"]),
        ("[]].txt", ["].txt"], ["a.txt"]),
        ("[!]].txt", ["a.txt"], ["].txt"]),
        ("a[.]b", ["a.b"], ["axb"]),
        ("[*].txt", ["*.txt"], ["a.txt", "aa.txt"]),
        ("a[?*]*b", ["a*b", "a?xb"], ["ab", "axb"]),
        ("a[/]b", [], ["a/b"]),
        ("[a", ["[a"], ["a"]),
        ("a]", ["a]"], ["a"]),
        ("{a,b}.txt", ["a.txt", "x/b.txt"], ["c.txt", "{a,b}.txt"]),
        ("*.{py,md}", ["x.py", "x/y.md"], ["x.pyc"]),
        ("{a,b{c,d}}", ["a", "bc", "bd"], ["b", "bcd"]),
        ("{a}", ["{a}"], ["a"]),
        ("{a,}b", ["ab", "b"], ["aab"]),
        ("{src,tests}/**/*.py", ["src/a.py", "tests/b/c.py"], ["docs/a.py"]),
        ("a{b", ["a{b"], ["ab"]),
        ("a+b(c)|d^$.txt", ["a+b(c)|d^$.txt"], ["aab(c)|d^$.txt"]),
        ("a b", ["a b"], ["ab"]),
        ("a\\b", ["a\\b"], []),
        ("*", ["a", "b/a", "new\nline", "\udcff"], [".a", "b/.a"]),
        ("new*", ["new\nline"], ["old\nnew"]),
        ("a.b", ["a.b"], ["axb"]),
        ("folder/", [], ["folder", "folder/a"]),
        ("a//b", ["a/b"], []),
    ],
)
def test_what_is_matched(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [path for path in yes if not matches(pattern, path)] == []
    assert [path for path in no if matches(pattern, path)] == []


@pytest.mark.parametrize("pattern", ["", "/", "//", "..", "../x", "a/../b", "a/.."])
def test_what_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", ["[z-a]", "[?-.]", "[!z-a]x", "x[9-0]*"])
def test_a_range_that_runs_backwards_is_refused_or_empty(pattern: str) -> None:
    try:
        assert not matches(pattern, "b")
    except PatternError as error:
        assert str(error)  # either answer is right; another error is not


@pytest.mark.parametrize("pattern", ["..a", "a..b", "...", "a/..b"])
def test_dots_within_a_name_are_a_name(pattern: str) -> None:
    assert matches(pattern, pattern)


SEGMENTS = st.one_of(
    st.text("abc", min_size=1, max_size=2),
    st.sampled_from(
        ["*", "**", "?", "a*", "*a", "*b*", "a?c", ".*", ".a", "[ab]", "[!a]*", "[a-b]c", "{a,b}"]
    ),
    st.sampled_from(["*.{a,b}", "{a,bc}*", ".{a,b}", "[abc]?", "*.a"]),
)
PATHS = st.lists(
    st.one_of(st.text("abc", min_size=1, max_size=3), st.sampled_from([".a", ".b", "a.a", "c.b", "..a"])),
    min_size=1,
    max_size=4,
).map("/".join)


@settings(max_examples=1000)
@given(st.lists(SEGMENTS, min_size=2, max_size=4).map("/".join), PATHS)
def test_with_a_slash_it_is_what_wcmatch_says(pattern: str, path: str) -> None:
    assert matches(pattern, path) == reference.globmatch(path, pattern, flags=FLAGS)


@settings(max_examples=500)
@given(SEGMENTS.filter(lambda text: "**" not in text), PATHS)
def test_without_a_slash_it_is_the_name_at_any_depth(pattern: str, path: str) -> None:
    name = path.rsplit("/", 1)[-1]
    assert matches(pattern, path) == reference.globmatch(name, pattern, flags=FLAGS)


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_a_pattern_or_refused(pattern: str, path: str) -> None:
    try:
        compiled = compile_pattern(pattern)
    except PatternError:
        return
    compiled.match(path)


@given(st.text("abc[]!^-{},*?.\\/&|~", max_size=12), st.text("abc-]^!.", min_size=1, max_size=6))
def test_any_mixture_of_special_characters_too(pattern: str, path: str) -> None:
    try:
        compiled = compile_pattern(pattern)
    except PatternError:
        return
    compiled.match(path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 30 + "b", "a" * 250),
        ("*" * 200 + "b", "a" * 250),
        ("?*" * 60 + "b", "a" * 250),
        ("**/" * 30 + "x", "a/" * 400 + "y"),
        ("**/a/" * 12 + "x", "a/" * 200 + "y"),
        ("/".join(["*a*a*a*b"] * 20), "/".join(["a" * 60] * 20)),
        ("{a,b}" * 9, "a" * 250),
        ("{" * 5000, "a"),
        ("{a," * 2000, "a"),
        ("{" + "," * 900 + "}", "a"),
        ("{a,b}" * 40, "a"),
        ("{a,{b,{c,{d,{e,f}}}}}" * 4, "a"),
        ("[" * 5000, "a"),
        ("[a" * 3000, "a"),
        ("?" * 50_000, "a" * 4000),
        ("*." + "x" * 100_000, "a"),
    ],
    ids=lambda value: value[:20],
)
def test_no_pattern_takes_for_ever(pattern: str, path: str) -> None:
    """In a process of its own: a regular expression that runs away cannot be interrupted."""
    script = (
        "import sys, time; from libs.sandbox.patterns import PatternError, compile_pattern\n"
        "pattern, path = sys.stdin.read().split(chr(0))\n"
        "try:\n    compiled = compile_pattern(pattern)\n    compiled.match(path)\n"
        "except PatternError:\n    pass\n"
    )
    begun = time.monotonic()
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=f"{pattern}\0{path}",
        text=True,
        cwd=root,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0
    assert time.monotonic() - begun < PATIENCE + 1  # a second for the interpreter on a busy machine
