"""Record a training run, learn what always holds in it, and say where it stops to hold."""
