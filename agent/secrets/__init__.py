"""Finds the secrets of this installation and redacts them in this process.

In come the settings. Out come the filter of the known secrets, and guards for logs, crash tracebacks, traces,
input of graphs and errors of model providers. `suspected` reports output that looks like an unknown secret.
"""

from __future__ import annotations

from agent.secrets.redaction_guards import KNOWN, clean_input, guard_sinks, guard_traces, provider_errors
from agent.secrets.secret_values import PROVIDER_KEYS, key_of, known_secrets, secret_filter
from agent.secrets.suspected_secrets import suspected

__all__ = [
    "KNOWN",
    "PROVIDER_KEYS",
    "clean_input",
    "guard_sinks",
    "guard_traces",
    "key_of",
    "known_secrets",
    "provider_errors",
    "secret_filter",
    "suspected",
]
