"""Facts of a training script, by dotted key: each file of this folder tells some, each with its place."""
