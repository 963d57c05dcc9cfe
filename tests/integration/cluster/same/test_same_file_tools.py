"""The file tools behave on a node of a cluster as in every sandbox."""

from __future__ import annotations

from tests.integration.commands.test_files import TestContent, TestEdit, TestPaths, TestWrite, place

__all__ = ["TestContent", "TestEdit", "TestPaths", "TestWrite", "place"]

LEFT_OUT = {
    "test_download_over_the_limit_is_refused": "a program of its own would have to join the cluster",
}
