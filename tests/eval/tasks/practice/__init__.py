"""Two tasks of each kind that were held out once: in no subset but `practice`."""
