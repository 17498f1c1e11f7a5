"""Rules on what a dry run saw, about numerics: one file for one rule."""
