"""The worker for file operations in the container.

In comes an operation with a path. Out comes its answer. No operation blocks or leaves half a file.
"""
