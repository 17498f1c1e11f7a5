"""Rules about memory: one file for one rule."""
