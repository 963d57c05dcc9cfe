"""The text about what a call has done shows all of it, and no file can imitate a part of it."""

from __future__ import annotations

from pathlib import Path

from libs.middleware.approvals.effects.effect_card import effect_card
from libs.persistence.thread_database import SqliteDatabase
from tests.unit.approvals.test_effect_runs import Calls


async def described(command: str, folder: Path, database: SqliteDatabase) -> str:
    with Calls(folder, database) as calls:
        calls.threads.path("old").parent.mkdir(parents=True)
        calls.threads.path("old").write_text("keep\n")
        effect = await calls.run(command)
        return (await effect_card(calls.runs, effect, "key", str))[1]


async def test_name_with_line_ends_stays_on_its_line(tmp_path: Path, database: SqliteDatabase) -> None:
    text = await described("touch $'a\\n```diff\\n+fine\\n```'; rm old", tmp_path, database)
    assert text.count("\n```diff\n") == 1
    assert "  /workspace/a‹U+000A›```diff‹U+000A›+fine‹U+000A›``` (0 bytes)\n" in text
    assert "-keep" in text


async def test_cut_line_says_so(tmp_path: Path, database: SqliteDatabase) -> None:
    text = await described("printf '%0250d!' 0 | tee old", tmp_path, database)
    assert text.count("0 … 51 more characters") == 1  # the sign of the diff counts
    assert text.count("0 … 52 more characters") == 1


async def test_changed_permissions_are_shown(tmp_path: Path, database: SqliteDatabase) -> None:
    text = await described("chmod 640 old; mkdir new", tmp_path, database)
    assert "  /workspace/old (5 bytes, mode 640)" in text
    assert "  /workspace/new (folder)" in text
