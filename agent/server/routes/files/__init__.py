"""The routes `/files/{thread_id}/…`: files of a thread, for the page.

In: a path, and a turn if the files of that turn are meant. Out: lists, contents, tables and pictures, read in
the sandbox of the thread or from a snapshot.
"""
