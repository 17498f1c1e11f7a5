"""Rules on what a dry run saw, about configuration: one file for one rule."""
