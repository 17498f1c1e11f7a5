"""Looks at a job that hangs: finds its ranks on this node, takes their stacks, and says who does otherwise."""
