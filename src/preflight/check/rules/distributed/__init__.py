"""Rules about distributed: one file for one rule."""
