"""Rules about config: one file for one rule."""
