"""The workers for commands and for Python blocks in the container.

In comes a command or a block; output is caught, cut and spilled; a time-out kills every process that it
started.
"""
