"""Rules about correctness: one file for one rule."""
