"""Threads have sandboxes of their own, spares and idle stops on a cluster as on the host."""

from __future__ import annotations

from tests.integration.life.test_threads import TestApart, TestIdle, TestSpares, make_threads, threads

__all__ = ["TestApart", "TestIdle", "TestSpares", "make_threads", "threads"]

HOST_FOLDER = "workspaces on a cluster are not folders of the host"
LEFT_OUT = {
    "test_data_is_shared_read_only_and_all_other_files_are_separate": HOST_FOLDER,
    "test_threads_in_a_workspace_of_another_user_belong_to_that_user": HOST_FOLDER,
    "test_thread_can_change_files_of_root_after_its_next_start": HOST_FOLDER,
    "test_old_spares_of_running_programs_are_kept_and_leftovers_removed": HOST_FOLDER,
    "test_spares_of_a_killed_program_are_removed_at_the_next_start": HOST_FOLDER,
    "test_dead_spare_is_not_used_for_a_thread": HOST_FOLDER,
    "test_spare_with_a_removed_folder_is_not_used_for_a_thread": HOST_FOLDER,
    "test_file_in_the_place_of_a_folder_is_named": HOST_FOLDER,
    "test_missing_engine_is_reported_to_the_thread_only": "the host's Engine runs no sandbox of a cluster",
    "test_idle_container_is_stopped_and_started_again": HOST_FOLDER,
    "test_idle_container_is_stopped_in_scope_shared": "a cluster has no scope `shared`",
}
