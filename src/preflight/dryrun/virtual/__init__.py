"""What runs inside the person's own interpreter: the standard library and the torch that is there, nothing else."""
