"""Rules on what a dry run saw, about reproducibility: one file for one rule."""
