"""The host's end of a sandbox: sends requests to the supervisor and returns results.

In come commands, blocks and file operations from any thread or event loop. They go over the channel as
requests. Out come results without known secrets. Commands with a key are recorded, so no command runs twice.
"""

from __future__ import annotations

from libs.sandbox.host.call_context import CurrentCall, carrying, current_call
from libs.sandbox.host.channel import Channel, Door, Egress, EgressStream, Receiver, way_out
from libs.sandbox.host.channel_sandbox import ChannelSandbox
from libs.sandbox.host.first_command import first_command_problem
from libs.sandbox.host.idle_close import Keep
from libs.sandbox.host.loop_thread import LoopThread, blocking, core, on_core, synchronous, until_done
from libs.sandbox.host.new_workspace import ChannelTree, Fill
from libs.sandbox.host.records import CommandRecords, Form, Once, process_ends, process_is_ending
from libs.sandbox.host.requests import (
    MAX_PATH,
    encoded,
    encoded_variables,
    failed_result,
    redacted_content,
    shortened,
)
from libs.sandbox.host.thread_notes import ThreadNotes, notes_of
from libs.sandbox.host.thread_work import OUTSIDE, Span, Turns, file_clock
from libs.sandbox.wire.messages import NO_MEMORY

__all__ = [
    "MAX_PATH",
    "NO_MEMORY",
    "OUTSIDE",
    "Channel",
    "ChannelSandbox",
    "ChannelTree",
    "CommandRecords",
    "CurrentCall",
    "Door",
    "Egress",
    "EgressStream",
    "Fill",
    "Form",
    "Keep",
    "LoopThread",
    "Once",
    "Receiver",
    "Span",
    "ThreadNotes",
    "Turns",
    "blocking",
    "carrying",
    "core",
    "current_call",
    "encoded",
    "encoded_variables",
    "failed_result",
    "file_clock",
    "first_command_problem",
    "notes_of",
    "on_core",
    "process_ends",
    "process_is_ending",
    "redacted_content",
    "shortened",
    "synchronous",
    "until_done",
    "way_out",
]
