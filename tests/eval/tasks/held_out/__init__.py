"""Two tasks of each kind that no prompt or example was tried on: in no subset but `held-out`."""
