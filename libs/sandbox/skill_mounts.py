"""Paths of the trusted skills in the sandbox. Skills at other paths come from outside."""

from __future__ import annotations

__all__ = ["LEARNED_MOUNT", "OWN_MOUNT"]

OWN_MOUNT = "/skills"
"""The project's own skills."""
LEARNED_MOUNT = "/skills.d/learned"
"""Skills that an agent proposed and a person approved."""
