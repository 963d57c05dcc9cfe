"""The list of turns to which a thread can go back."""

from __future__ import annotations

from agent.run import Point
from agent.terminal import point_rows
from libs.workspace import Difference
from libs.workspace.history import TurnChange


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
