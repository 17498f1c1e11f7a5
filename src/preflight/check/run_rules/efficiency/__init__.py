"""Rules on what a dry run saw, about efficiency: one file for one rule."""
