"""The kernel's counters are read from what the sandbox has printed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from libs.exec_tool.outcome import Counted, counted

V1 = """\
peak 16568320
oom oom_kill_disable 0
oom under_oom 0
oom oom_kill 2
pids max 3
cpu 1500000000
"""
V2 = """\
peak 16568320
oom low 0
oom max 12
oom oom 1
oom oom_kill 2
pids max 3
cpu usage_usec 1500000
cpu user_usec 1000000
disk 0
"""


@pytest.mark.parametrize("printed", [V1, V2])
def test_counters_of_both_cgroup_versions_are_read(printed: str) -> None:
    assert replace(counted(printed), disk_left=None) == Counted(16568320, 1.5, 2, 3)


@pytest.mark.parametrize("printed", ["", "peak max\n"])
def test_missing_counters_are_none(printed: str) -> None:
    assert counted(printed) == Counted()


def test_packets_that_reach_nothing_are_counted() -> None:
    said = (
        "Ip: Forwarding OutNoRoutes OutTransmits\nIp: 1 2 8\nUdp: InDatagrams NoPorts\nUdp: 5 4\npids max 1\n"
    )
    assert counted(said) == Counted(unreached=6, refused=1)


def test_processes_that_were_left_running_are_counted() -> None:
    assert counted("left 2\npids max 1\n") == Counted(left=2, refused=1)
