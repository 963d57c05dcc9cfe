"""Packages for programs in the sandbox, from the indexes that pip and npm on the host are set to (G3)."""
