"""The live Python interpreter of a session.

In: blocks of one session. Out: their output and status. The worker keeps the interpreter as a child process,
and reports whether the variables are kept.
"""
