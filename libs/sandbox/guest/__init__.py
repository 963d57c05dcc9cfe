"""Runs in the container, with the standard library only: the first process and its workers.

In come requests as frames on standard input. Workers serve them. Answers go to standard output.
"""
