"""Rules on what a dry run saw, about correctness: one file for one rule."""
