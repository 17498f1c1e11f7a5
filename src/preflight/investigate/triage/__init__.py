"""A quick look at a node on which a job runs, or should: who is there, what is left of memory, what can be reached."""
