"""The content of requests to the supervisor, and of their answers.

In come commands, blocks and file operations: out come payloads. In come answers: out come results or errors
without known secrets. The channel sends and receives.
"""

from __future__ import annotations

from libs.sandbox.host.requests.file_arguments import CHANGES, MAX_PATH, encoded
from libs.sandbox.host.requests.file_results import as_builtin, file_result
from libs.sandbox.host.requests.redacted_results import redacted_content, redacted_errors, redacted_values
from libs.sandbox.host.requests.request import Answer, Call, decoded
from libs.sandbox.host.requests.request_payloads import (
    block_request,
    encoded_variables,
    file_asked,
    file_request,
    run_asked,
    run_request,
    tree_request,
)
from libs.sandbox.host.requests.results import (
    block_result,
    failed_result,
    received,
    run_result,
    shortened,
)

__all__ = [
    "CHANGES",
    "MAX_PATH",
    "Answer",
    "Call",
    "as_builtin",
    "block_request",
    "block_result",
    "decoded",
    "encoded",
    "encoded_variables",
    "failed_result",
    "file_asked",
    "file_request",
    "file_result",
    "received",
    "redacted_content",
    "redacted_errors",
    "redacted_values",
    "run_asked",
    "run_request",
    "run_result",
    "shortened",
    "tree_request",
]
