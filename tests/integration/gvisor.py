"""Tests that must fail with gVisor (`SANDBOX_RUNTIME=runsc`), each with the reason.

The reasons stand in docs/threat-model.md, too. A listed test that passes counts as failed, because the list
is then out of date. The list is for the gVisor of Debian 12, of December 2022.
"""

from __future__ import annotations

import json
import subprocess
from typing import NamedTuple

import pytest

__all__ = ["EXCEPTIONS", "expect_failures"]

_ATTACKS = "tests/integration/attacks"
_COMMANDS = "tests/integration/commands"
_INTERPRETER = "tests/integration/interpreter"
_ENDS = f"{_INTERPRETER}/test_interpreter_ends.py::TestEnds"
_POSTURE = f"{_ATTACKS}/test_posture.py"
_SUPERVISOR = f"{_ATTACKS}/test_attack_supervisor.py"
_LIMITS = f"{_ATTACKS}/test_attack_limits.py"
_EXHAUSTED = f"{_LIMITS}::test_exhausted_resource_is_freed"
_NEIGHBOURS = f"{_ATTACKS}/test_attack_neighbours.py::test_attack_does_not_affect_another_sandbox"


class Failing(NamedTuple):
    """Tests that fail for one reason."""

    tests: tuple[str, ...]
    raises: type[Exception] | None = AssertionError
    """The exception with which each test fails; None: several, for example where the sandbox ends."""


EXCEPTIONS: dict[str, Failing] = {
    "gVisor shows neither ambient capabilities nor no-new-privileges in /proc": Failing(
        (f"{_POSTURE}::TestPrivileges::test_process_cannot_gain_capabilities",),
        raises=KeyError,
    ),
    "gVisor allows what changes only its own state": Failing(
        (
            *(
                f"{_POSTURE}::TestPrivileges::test_privileged_operations_are_refused[{attempt}]"
                for attempt in ("unshare -U true", "mknod /tmp/null c 1 3", "dmesg", "renice -n -5 $$")
            ),
        ),
    ),
    "gVisor lets a program make namespaces, and the copy of the program answers, too": Failing(
        (f"{_SUPERVISOR}::test_system_calls_that_leave_the_container_are_refused",),
        raises=json.JSONDecodeError,
    ),
    "gVisor has no options nosuid and nodev of a tmpfs": Failing(
        (f"{_POSTURE}::TestReach::test_scratch_space_has_no_devices_and_no_set_uid",),
    ),
    "gVisor shows no control groups inside": Failing(
        (f"{_POSTURE}::TestLimits::test_kernel_has_the_configured_limits",),
    ),
    "At the process limit or the memory limit, gVisor ends with the whole sandbox": Failing(
        (
            f"{_POSTURE}::TestLimits::test_process_limit",
            f"{_COMMANDS}/test_time_out.py::TestTimeOut::test_fork_bomb_ends_within_a_second",
            f"{_LIMITS}::test_only_one_command_fails_when_the_background_took_all_processes",
            *(
                f"{_ENDS}::{name}"
                for name in (
                    "test_block_is_refused_at_once_while_a_command_holds_all_processes",
                    "test_block_that_ends_programs_in_the_background_says_so",
                    "test_exhausted_memory_ends_only_the_interpreter",
                    "test_processes_of_a_block_that_fill_the_limit_end_for_the_next_command",
                    "test_session_that_holds_all_processes_and_does_not_end_is_killed",
                    "test_session_that_holds_all_processes_ends_for_a_new_session",
                    "test_sessions_that_hold_all_processes_end_for_other_requests",
                    "test_sessions_that_ran_together_leave_room_for_commands",
                )
            ),
            *(f"{_NEIGHBOURS}[{kind}]" for kind in ("fork bomb", "memory full")),
            *(f"{_EXHAUSTED}[{kind}]" for kind in ("shared memory", "messages", "threads")),
        ),
        raises=None,
    ),
    "gVisor limits neither the number of files of a tmpfs nor of System V objects": Failing(
        (
            *(
                f"{_EXHAUSTED}[{kind}]"
                for kind in (
                    "files in /tmp",
                    "files in /dev/shm",
                    "files in /run",
                    "semaphores",
                    "sets of semaphores",
                )
            ),
            f"{_LIMITS}::test_all_resources_exhausted_at_once",
        ),
        raises=None,
    ),
    "gVisor does not answer while a process forks all the time": Failing(
        (f"{_ATTACKS}/test_attack_time.py::test_fast_forking_process_is_killed",),
        raises=None,
    ),
    "gVisor opens /proc of the supervisor to commands": Failing(
        (f"{_SUPERVISOR}::test_proc_files_of_supervisor_and_workers_cannot_be_opened",),
    ),
    "gVisor delivers signals of F_SETSIG to process 1": Failing(
        (f"{_SUPERVISOR}::test_signals_do_not_reach_process_one",),
    ),
    "gVisor has no scheduling classes": Failing(
        (f"{_ATTACKS}/test_attack_end.py::test_scheduling_of_process_one_cannot_be_changed",),
    ),
    "gVisor sends SIGHUP to the process group of a stopped process that is killed": Failing(
        (
            f"{_INTERPRETER}/test_interpreter_interrupts.py::TestTimeOut"
            "::test_processes_of_an_interrupted_block_are_killed[before-docker]",
            f"{_INTERPRETER}/test_interpreter_answers.py::test_time_out_says_whether_the_variables_are_kept"
            "[os.system('sleep 60')-the block ended, but not with KeyboardInterrupt: "
            "processes started during the block were ended, the variables are kept]"
            "-docker]",
        ),
    ),
    "gVisor checks permissions before it looks for a read-only file system": Failing(
        (
            f"{_COMMANDS}/test_files.py::TestWrite::test_error_says_where_files_can_be_made",
            f"{_COMMANDS}/test_files.py::TestEdit::test_edit_of_a_read_only_file_is_refused",
        ),
    ),
    "gVisor has no leases, so an edit does not notice that a program has the file open": Failing(
        (f"{_COMMANDS}/test_files.py::TestEdit::test_changes_at_the_same_time_are_all_kept",),
    ),
    "gVisor has no subreapers, so what an interpreter has left running outlives the interpreter": Failing(
        (f"{_ENDS}::test_note_says_that_programs_of_earlier_blocks_may_have_ended[docker]",),
    ),
    "gVisor keeps files of the workspace open, so the host cannot make its file system read-only": Failing(
        (f"{_COMMANDS}/test_disk_full.py::test_read_only_disk_is_named_as_the_cause",),
        raises=subprocess.CalledProcessError,
    ),
    "gVisor has no files without a name (O_TMPFILE)": Failing(
        (f"{_COMMANDS}/test_files.py::TestContent::test_upload_to_a_killed_container_leaves_nothing",),
    ),
}
"""Reason -> tests."""


def expect_failures(items: list[pytest.Item]) -> None:
    """Mark the listed tests as expected failures."""
    expected = {
        test: pytest.mark.xfail(reason=reason, raises=failing.raises, strict=True)
        for reason, failing in EXCEPTIONS.items()
        for test in failing.tests
    }
    for item in items:
        for test in (item.nodeid, item.nodeid.partition("[")[0]):
            if test in expected:
                item.add_marker(expected[test])
