"""Commands and files behave on a node of a cluster as in every sandbox."""

from __future__ import annotations

from tests.integration.commands.test_behaviour import TestBackground, TestCommands, TestFiles
from tests.integration.commands.test_long_output import TestOutput, TestStreaming

__all__ = ["TestBackground", "TestCommands", "TestFiles", "TestOutput", "TestStreaming"]

LEFT_OUT = {
    "test_long_output_needs_no_memory_of_the_host": "a program of its own would have to join the cluster",
    "test_failing_callback_harms_no_command": "makes a local sandbox",
}
