"""Rules on what a dry run saw, about memory: one file for one rule."""
