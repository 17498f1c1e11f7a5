"""Rules about efficiency: one file for one rule."""
