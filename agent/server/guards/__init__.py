"""Checks every request: origin, token, owner, limits and body.

In: a request. Out: the request without known secrets, or a JSON error.
"""
