"""Rules about numerics: one file for one rule."""
