"""Keeps threads and runs when the server is killed.

In: the threads and runs of LangGraph's server. Out: rows in the database, written before a client gets an
answer about them, and restored when the server starts.
"""
