"""Rules about reproducibility: one file for one rule."""
