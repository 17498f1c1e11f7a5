"""Rules about data: one file for one rule."""
