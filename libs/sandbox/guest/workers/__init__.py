"""The workers for commands in the container, and what the interpreter's worker shares with them.

In comes a command; output is caught, cut and spilled; a time-out kills every process that the command
started.
"""
