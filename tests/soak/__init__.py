"""A mixed load for a long time: nothing that is held may grow."""
