"""File name patterns have the usual meaning, and none runs away."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wcmatch import glob as reference

from libs.sandbox.guest.files.patterns import PatternError, compile_pattern

FLAGS = reference.GLOBSTAR | reference.BRACE | reference.FORCEUNIX | reference.CASE
PATIENCE = 2.0
"""Seconds of processor time for a pattern."""


def matches(pattern: str, path: str, root: str = "/") -> bool:
    """Return whether a search finds a path relative to its root."""
    for start, search in compile_pattern(pattern, root).items():
        folder, full = start.rstrip("/") + "/", f"{root.rstrip('/')}/{path}"
        below = full[len(folder) :]
        reached = full.startswith(folder) and (search.depth is None or below.count("/") < search.depth)
        if reached and search.matches(below):
            return True
    return False


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.csv", ["a.csv", "deep/er/a.csv"], ["a.csv.gz", "csv", ".a.csv", "a.csv/b", "a.CSV"]),
        ("/*.csv", ["a.csv"], ["deep/a.csv"]),
        ("b/**", ["b/a", "b/c/d"], ["a", "b", "b/.a", "b/.c/d"]),
        ("**", ["a", "b/a"], [".a", ".b/a"]),
        (".git/**", [".git/config", ".git/a/b"], ["git/config", ".git/.hidden"]),
        ("?.txt", ["a.txt", "ü.txt", "😀.txt"], ["ab.txt", ".txt", "/.txt"]),
        ("[^a].txt", ["b.txt"], ["a.txt"]),
        ("[]].txt", ["].txt"], ["a.txt"]),
        ("a[?*]*b", ["a*b", "a?xb"], ["ab", "axb"]),
        ("a[/]b", [], ["a/b"]),
        ("[a", ["[a"], ["a"]),
        ("[a][b[", ["a[b["], ["ab", "[a][b["]),
        ("a[][", ["a[]["], ["a[", "a]"]),
        ("[[]*[x", ["[a[x"], ["a[x"]),
        ("{a,b{c,d}}", ["a", "bc", "bd"], ["b", "bcd"]),
        ("{a,}", ["a"], ["b"]),
        ("{a}", ["{a}"], ["a"]),
        ("a+b(c)|d^$.txt", ["a+b(c)|d^$.txt"], ["aab(c)|d^$.txt"]),
        ("a\\b", ["a\\b"], []),
        ("*", ["a", "b/a", "new\nline", "\udcff"], [".a", "b/.a"]),
        ("./*.csv", ["a.csv"], ["b/a.csv"]),
    ],
)
def test_pattern_matches_these_paths(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [path for path in yes if not matches(pattern, path)] == []
    assert [path for path in no if matches(pattern, path)] == []


def test_pattern_may_begin_with_the_path_of_the_search_root() -> None:
    for root in ("/workspace", "/workspace/"):
        for pattern, path in (("/workspace/*.csv", "a.csv"), ("/workspace/**/*.csv", "b/a.csv")):
            assert matches(pattern, path, root)
        assert not matches("/workspace/*.csv", "b/a.csv", root)
        assert not matches("/workspaces/*.csv", "a.csv", root)
        with pytest.raises(PatternError):
            compile_pattern("/workspace/", root)


def test_absolute_pattern_reaches_the_folder_that_it_names(tmp_path: Path) -> None:
    """From the search root, from another path of it, or from a folder above it. Otherwise it is refused."""
    root, link = tmp_path / "root", tmp_path / "link"
    (root / "data").mkdir(parents=True)
    link.symlink_to("root/data")
    for pattern, start, path in (
        (f"{root}/data/*.csv", link, "a.csv"),
        (f"{link}/*.csv", root, "data/a.csv"),
        (f"{root}/data/b/*.csv", link, None),
        ("/data/*.csv", root, "data/a.csv"),
        ("/*.csv", root, "a.csv"),
        ("/nowhere/*.csv", root, None),
        (f"/{{data,{tmp_path}/root/b}}/*.csv", root, "data/a.csv"),
    ):
        found = [name for name in ("a.csv", "data/a.csv") if matches(pattern, name, str(start))]
        assert found == [path] * (path is not None)
    for pattern in (f"{root}/*.csv", f"{tmp_path}/*", "/etc/hostname", "/{etc,usr}/*"):
        with pytest.raises(PatternError, match=r"is searched: search in /"):
            compile_pattern(pattern, str(root / "data"))


def test_invalid_patterns_are_refused() -> None:
    named = ("", "/", "..", "../x", "a/../b", "a/..", "a\0b", "!*.log", "a/", "{a,*/}")
    other = (r"x\[1\].md", r"a\*", "{1..3}", "i{01..10..2}.png", "{-1..1}", "[[:digit:]]", "[_[:alnum:]]")
    for pattern in (*named, *other, "a" * 10_001, "{a,b}" * 8 + "c" * 400):
        with pytest.raises(PatternError):
            compile_pattern(pattern)
    for pattern in ("..a", "a..b", "...", "{a..}", "{..}"):
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


@settings(max_examples=200)
@given(st.lists(SEGMENTS, min_size=2, max_size=4).map("/".join), PATHS)
def test_pattern_with_a_slash_matches_like_wcmatch(pattern: str, path: str) -> None:
    assert matches(pattern, path) == reference.globmatch(path, pattern, flags=FLAGS)


@settings(max_examples=100)
@given(SEGMENTS.filter(lambda text: "**" not in text), PATHS)
def test_pattern_without_a_slash_matches_the_name_at_any_depth(pattern: str, path: str) -> None:
    name = path.rsplit("/", 1)[-1]
    assert matches(pattern, path) == reference.globmatch(name, pattern, flags=FLAGS)


RUNAWAY = [
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
    ("[a" * 3000, "a"),
    ("[" * 10_000, "a"),
    ("[]" + "[" * 9_000, "a"),
    ("{a,b}" * 4 + "[" * 5_000, "a"),
    ("{" + "," * 9_900, "a"),
    ("{," * 4_900, "a"),
    ("{a,b}" * 9 + "x" * 150, "a"),
    ("[" * 40_000, "a"),
    ("?" * 50_000, "a" * 4000),
    ("*." + "x" * 100_000, "a"),
]


def test_no_pattern_runs_away() -> None:
    """In another process, because a runaway regular expression cannot be interrupted."""
    script = (
        "import json, sys, time\n"
        "from libs.sandbox.guest.files.patterns import PatternError, compile_pattern\n"
        "for pattern, path in json.load(sys.stdin):\n"
        "    begun = time.process_time()\n"
        "    try:\n        for search in compile_pattern(pattern).values():\n"
        "            search.matches(path)\n    except PatternError:\n        pass\n"
        f"    assert time.process_time() - begun < {PATIENCE}, pattern[:20]\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(RUNAWAY),
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        timeout=20 + PATIENCE * len(RUNAWAY),
        check=False,
    )
    assert done.returncode == 0, done.stderr
