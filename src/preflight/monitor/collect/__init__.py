"""What runs inside the watched program: the standard library and the torch that is loaded there, nothing else."""
