"""Where the sandbox shows skills that need nobody's trust; those at other paths come from outside."""

from __future__ import annotations

__all__ = ["LEARNED_MOUNT", "OWN_MOUNT"]

OWN_MOUNT = "/skills"
"""The project's own."""
LEARNED_MOUNT = "/skills.d/learned"
"""Those that agents have proposed and a person has approved."""
