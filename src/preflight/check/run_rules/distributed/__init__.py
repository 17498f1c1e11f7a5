"""Rules on what a dry run saw, about distributed: one file for one rule."""
