"""The command log: records when a command begins and ends, so that no command runs twice.

In comes an operation with a key. Out comes its result: from the log if it has run before, else from the run.
"""

from __future__ import annotations

from libs.sandbox.host.records.command_log import CommandRecords, process_ends, process_is_ending
from libs.sandbox.host.records.run_once import FILE, RUN, Form, Once

__all__ = ["FILE", "RUN", "CommandRecords", "Form", "Once", "process_ends", "process_is_ending"]
