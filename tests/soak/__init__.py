"""A mixed load for a long time: memory, threads, descriptors and processes must not grow."""
