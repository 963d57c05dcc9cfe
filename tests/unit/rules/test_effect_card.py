"""The text about what a call has done shows all of it, and no file can imitate a part of it."""

from __future__ import annotations

from dataclasses import replace
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


async def test_what_reject_brings_back_is_told_from_what_stays(
    tmp_path: Path, database: SqliteDatabase
) -> None:
    text = await described("rm old; mkfifo old new", tmp_path, database)
    assert "reject brings back what was there before:\n  /workspace/old: a FIFO\n" in text
    assert "so not undone:\n  /workspace/new: a FIFO" in text


async def test_lines_of_a_cut_output_are_not_counted(tmp_path: Path, database: SqliteDatabase) -> None:
    text = await described("touch new; seq 1000000", tmp_path, database)
    assert "Output, its last 12 lines:\n    999989\n" in text


async def test_question_says_that_output_is_left_out(tmp_path: Path, database: SqliteDatabase) -> None:
    with Calls(tmp_path, database) as calls:
        effect = await calls.run("touch new; seq 3000")
        value, text = await effect_card(calls.runs, effect, "key", str)
    assert "Output, its last 12 of 3,000 lines:" in text
    first, rest = value["output"].split("\n", 1)
    assert first == "[what it printed before is left out]"
    assert rest.endswith("2999\n3000\n")


async def test_changed_line_ends_are_shown(tmp_path: Path, database: SqliteDatabase) -> None:
    text = await described(r"printf 'keep\r\nnew' > old", tmp_path, database)
    assert "-keep\n+keep‹U+000D›\n+new\n" in text


async def test_question_about_a_stopped_call_says_that_it_was_stopped(
    tmp_path: Path, database: SqliteDatabase
) -> None:
    with Calls(tmp_path, database) as calls:
        effect = await calls.run("touch new")
        stopped = replace(effect, result=replace(effect.result, interrupted="stopped"))
        text = (await effect_card(calls.runs, stopped, "key", str))[1]
    assert text.startswith("This was stopped while it ran, so nobody knows whether it ran to its end.")
