"""Plan: memory, time and money of every way to spread a model over a cluster, and the best one."""
