"""Rules on what a dry run saw, about data: one file for one rule."""
