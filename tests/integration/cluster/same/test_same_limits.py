"""Commands that exhaust a resource harm a node of a cluster as little as the host."""

from __future__ import annotations

from tests.integration.attacks.test_attack_limits import (
    small,
    test_all_resources_exhausted_at_once,
    test_download_of_a_growing_file_ends,
    test_exhausted_resource_is_freed,
    test_only_one_command_fails_when_the_background_took_all_processes,
)

__all__ = [
    "small",
    "test_all_resources_exhausted_at_once",
    "test_download_of_a_growing_file_ends",
    "test_exhausted_resource_is_freed",
    "test_only_one_command_fails_when_the_background_took_all_processes",
]
