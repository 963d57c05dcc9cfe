"""Removes known secrets from texts, values, streams and log records.

In comes a mapping from names to secret values. Out comes a `SecretFilter`, which replaces every form of a
secret by `[REDACTED]`. `unknown_secrets` only reports texts that look like secrets.
"""

from __future__ import annotations

from libs.redaction.log_guard import guard_logs
from libs.redaction.secret_filter import MARK, SecretFilter, SecretStream, unfit

__all__ = ["MARK", "Redact", "RedactStream", "SecretFilter", "guard_logs", "unfit"]

Redact = SecretFilter
"""The filter as other parts know it."""
RedactStream = SecretStream
"""The filter of bytes that come in pieces."""
