"""The list of turns to which a thread can go back, and what going back changes."""

from __future__ import annotations

from agent.prompts import back_note, unkept_note
from agent.run import Point
from agent.terminal import moved_lines, point_rows
from libs.workspace import Difference, Restored
from libs.workspace.history import Moved, TurnChange, Unkept


def row(change: TurnChange | None) -> str:
    [row] = point_rows([Point(1, "2026-01-02T03:04:05", "words", "ticket", "checkpoint", changed=change)])
    return row[-1]


def test_list_names_files_that_the_snapshot_of_the_turn_leaves_out() -> None:
    big = {"/data/big": "larger than 9 bytes"}
    many = Difference(("/data/big", *(f"/results/{number}" for number in range(9))), (), ("/data/old",))
    shown = "+/data/big +/results/0 +/results/1 +/results/2 +/results/3 and 6 more"
    assert row(TurnChange(many, big)) == f"{shown}; not kept: /data/big (larger than 9 bytes)"
    assert row(TurnChange(Difference(), big)) == "not kept: /data/big (larger than 9 bytes)"
    assert row(TurnChange()) == ""
    assert row(None) == "(not kept)"


def test_folder_whose_content_cannot_be_listed_is_named() -> None:
    told = Restored(Difference(changed=("/data/closed",)), {}, ("/data/closed",))
    assert list(moved_lines(Moved(told, "", None), "would be")) == [
        "/data/closed  would be changed back",
        "/data/closed  cannot be read now: what would be changed in it is not listed",
    ]


def test_name_with_a_line_end_or_other_bytes_stays_in_its_line() -> None:
    forged, raw = "/workspace/a\n/workspace/b  would be deleted", "/workspace/\udcff\x1b[2J"
    told = Restored(Difference(deleted=(forged,)), {raw: "a FIFO"}, ())
    moved = Moved(told, "", None)
    assert list(moved_lines(moved, "would be")) == [
        r"'/workspace/a\n/workspace/b  would be deleted'  would be deleted",
        r"'/workspace/\udcff\x1b[2J'  would be kept: a FIFO",
    ]
    noted = TurnChange(Difference(deleted=(forged,)), {raw: "a FIFO"})
    for text in (row(noted), back_note(moved), unkept_note(Unkept(skipped={raw: "a FIFO"})), moved.copy_note):
        assert text is not None
        assert r"'/workspace/\udcff\x1b[2J' (a FIFO)" in text
        assert "\n" not in text
