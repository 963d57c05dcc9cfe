"""Our own routes: `/run`, `/run-lite`, `/files`, `/app`, `/page`, `/health`.

In: a request that has passed the guards. Out: JSON, a file or the page.
"""
