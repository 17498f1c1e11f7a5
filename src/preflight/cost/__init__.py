"""Physics: memory, work and time of a training step from numbers alone."""
